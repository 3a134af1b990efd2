"""The controller runtime: transport, client, watch, informer cache, work queue, leader election, events, metrics.

Everything above this package reaches a cluster only through it, so every part runs unchanged on the embedded control
plane, on a real Kubernetes API server, and in a test on virtual time.

| to understand how | read |
|---|---|
| a server is reached | `kubeconfig`, `credentials`, `transport`; `http` is what goes between both sides |
| something is asked | `resources`, `client`, `exchange`, `errors` |
| a cache stays current | `frames`, `watch`, `mirror`, `informer` |
| work is done | `queue`, `controller`, `owners`; `manager` runs them together |
| one of several works | `leases` |
"""
