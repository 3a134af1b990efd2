"""`kohort up`: the embedded control plane as a process.

The one place that knows all parts. It owns what a process owns: a data directory and its lock, the certificates, the
socket, signals; and it starts the parts that were asked for, each a client of the API server like any other.
"""
