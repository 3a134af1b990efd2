"""The controller runtime: transport, client, watch, informer cache, work queue, leader election, events, metrics.

Everything above this package reaches a cluster only through it, so every part runs unchanged on the embedded control
plane, on a real Kubernetes API server, and in a test on virtual time.

| to understand how | read |
|---|---|
| a server is reached | `kubeconfig`, `credentials`, `transport`; `http` has the request and the response |
| requests are made | `resources`, `client`, `request_encoding`, `request_exchange`, `errors` |
| a cache stays current | `watch_frames`, `watch`, `shared_store`, `informer` |
| objects are reconciled | `queue`, `controller`, `event_mapping`; `manager` runs them together |
| one of several processes leads | `leader_election` |
"""
