"""Resizing a running pod: `judging`, waiting (`pending`), order of steps (`plan`), the guard (`memory`), `conditions`.

All of it is pure; `node.actuation` carries plans out and `node.allocation` remembers decisions.
"""
