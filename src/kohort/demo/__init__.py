"""`kohort demo`: a sharded language model of real processes, served, released, resized and rolled back in a minute.

| module | what it does |
|---|---|
| `model_server` | the model server: a program on its own, without any import of kohort |
| `manifests` | the objects that the demo applies: set, Service, route, Rollout |
| `demo_cluster` | starts a cluster for the demo and removes it afterwards |
| `isolation` | runs the demo in a network namespace of its own |
| `cluster_state` | watches the cluster and waits for states |
| `load_client` | sends requests without a pause and counts the answers |
| `chapters` | the chapters of the demo, in order |
| `display` | shows progress on a terminal, or line by line elsewhere |
| `run` | runs all of it and returns the exit code |

The client's figures are the proof: requests are streamed through the gateway from the first ready group to the end, and
a single request without a complete answer fails the demo.
"""
