"""Resizing whole groups in place: a change of cpu and memory in the templates, carried out on the running pods.

The path of one edit, in the order in which it is read:

| module | question |
|---|---|
| `kohort.rules.resource_edit` | Does the edit change nothing but cpu and memory? |
| `preflight` | May the pods of a group be resized at all, before the first write? |
| `preflight_requests` | What does the cluster say to that? |
| `pod_progress` | How far has one pod come? |
| `group_view` | What does a resize depend on, of a group? |
| `expected_restarts` | Which restarts of containers does a resize cause? |
| `record` | What is written down about a group under way, so that a restarted operator goes on? |
| `plan` | What is done next with every group of a set? |
| `patches` | How are the writes spelled? |
| `controller` | When is a set looked at, and how is the plan carried out? |
| `status` | Which conditions and counts does the set show? |
| `metrics` | What is counted and measured? |

A group is a transaction: all of its pods get the new amounts, or all get the old ones back. When all pods have them,
the group is adopted: its StatefulSets and pods get the labels of the new revision without a pod being recreated.
"""
