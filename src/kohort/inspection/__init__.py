"""What a person wants to know about a set of groups: its tree, why it is not ready, what an edit would do, its history.

Everything here is a function of a `Snapshot`, which the commands of `kohort.cli` read from a cluster. Nothing here
talks to one, so a question that a command answers can be put in a test as a table.
"""
