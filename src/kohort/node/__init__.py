"""The node agent: pods as processes of this machine, and their resize in place.

`agent` keeps one `podworker` for each pod that is bound here. A worker brings what runs (`runtimes`) to what the spec
says: `sandbox` and `volumes` before the first container, `lifecycle` for which one is next, `containerstarts`,
`probing` and `ending` for each of them, `statuses` and `reporting` for what is told. Resizes are judged in turn
(`resizes`, with the rules of `resize`), promised (`allocation`, `checkpoint`) and carried out (`pushing`, `actuation`,
`cgroups`).
"""
