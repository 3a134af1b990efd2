"""The controller runtime: transport, client, watch, informer cache, work queue, leader election, events, metrics.

Everything above this package reaches a cluster only through it, so every part runs unchanged on the embedded control
plane, on a real Kubernetes API server, and in a test on virtual time.
"""
