"""Device plugins: GPUs and other devices that a program of their vendor announces to the node (API v1beta1).

| module          | what is in it                                                                         |
|-----------------|---------------------------------------------------------------------------------------|
| `interface`     | what the rest of the agent knows of devices                                           |
| `messages`      | the messages and methods of both sides                                                |
| `device_choice` | which devices a container gets: a function of what is free                             |
| `plugin`        | one plugin that has registered: its devices as they change, and calls to it            |
| `registry`      | the socket where plugins register, and what all of them offer                          |
| `allocations`   | devices of pods: admission, records on the disk, what a container is started with      |
| `container_use` | what plugins say about the devices of a container, as its launch needs it                    |
| `service`       | all of these together, for the agent                                                  |
| `pod_resources` | a socket that tells monitoring programs which pod has which device (PodResources v1)   |

    plugin                       node                                          runtime
      | Register(name, socket) --> registry
      | <-- ListAndWatch --------- plugin      ---> capacity of the node
      | <-- Allocate ------------- allocations <--- a pod is admitted
      |                              record on disk
      | <-- PreStartContainer ---- allocations ---> variables, mounts, devices --> start

A pod is given its devices once, when it is admitted, and keeps them until it ends: through restarts of its containers,
of the agent and of the plugin. Whatever happens to a device later, a running pod is left alone.
"""
