"""Containers through the container runtime interface (CRI): containerd, CRI-O.

The agent keeps every decision; the runtime's own records are the only record of what runs. Sandboxes and containers
carry the labels that kubelet gives them, so that crictl shows pods as usual, and one of ours that names the node:
whatever lacks it is never touched.

| module             | what is in it                                                                        |
|--------------------|--------------------------------------------------------------------------------------|
| `messages`         | the messages and methods of the interface, with their numbers                        |
| `client`           | calls with the deadline of each method; which methods the runtime does not have      |
| `configuration`    | from a pod and a launch to the configuration of sandbox and container (pure)          |
| `runtime`          | `CriRuntime`: sandboxes, containers, their ends                                      |
| `image_names`      | complete names of images, and which credentials fit them (pure)                      |
| `image_pulls`      | pull policies, credentials, one pull per image at a time                             |
| `pull_turns`       | whose image is pulled next                                                           |
| `image_removal`    | which unused images go when the disk fills up                                        |
| `streams`          | exec and attach: a client of the runtime's streaming server                          |
| `container_logs`   | rotation of the log files that the runtime writes                                    |
| `cni`              | gives sandboxes their network: the runtime calls a plugin, which asks the agent       |
| `cni_installation` | the plugin, the folders in which it is, and the agents that it asks                  |
| `discovery`        | which runtime runs on this machine, and whether it can be used                       |
| `crio_settings`    | what CRI-O says of its configuration, beside the interface                           |
| `leftover_sandboxes`| ends the pods of an agent that was killed, without another agent                    |
"""
