"""LeaderWorkerSet: groups of one leader and its workers, created, rolled, resized and restarted as one.

Two reconcilers, `setcontroller` and `podcontroller`, observe (`views`, `observation`), ask the pure rules beside them,
and write the objects that `objects` describes. The rules that most of the package is about:

| rule | module |
|---|---|
| how far a set may roll | `rolling`, `founding` |
| when two templates are the same revision | `canonical`, `revisions` |
| when a group is recreated, and when the next may follow | `restarts`, `succession` |
| what a set may say | `defaulting`, `validation`, `trial`, `collisions` |
| what its pods are told, and where they run | `podmutation`, `subgroups`, `placement`, `tpu`, `gang` |
| what is told about it | `status`, `waiting`, `inquiry`, `metrics` |
"""
