"""Carrying out an accepted resize: order of steps (`plan`) and the guard of memory limits (`memory`).

All of it is pure; `node.actuation` carries plans out and `node.allocation` remembers decisions.
"""
