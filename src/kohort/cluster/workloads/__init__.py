"""The workload controllers of the embedded control plane.

Each controller is a client of the API like any other. Its rules are pure functions beside it (`plan`); the reconciler
reads caches, calls the rule and writes what it says.
"""
