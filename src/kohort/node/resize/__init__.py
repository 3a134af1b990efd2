"""In-place resize, from the patch to the report. One word per act:

| act      | what happens                                                          | where                         |
|----------|-----------------------------------------------------------------------|-------------------------------|
| patch    | the spec of a pod changes; its worker syncs it                        | `node/pod_worker.py`          |
| decide   | may the pod have it: accepted, deferred, infeasible or reverted       | `rules/resize_decision.py`    |
|          | in which order the waiting resizes of a node are decided              | `rules/resize_queue.py`       |
|          | those of this node; conditions, events and metrics of each decision   | `resize_and_admission.py`     |
| allocate | what is accepted is recorded on disk before anything acts on it       | `allocation.py`               |
| actuate  | one pod is brought to what is allocated to it; its conditions follow  | `pod_resize.py`               |
|          | the steps of a plan are carried out, and each is recorded as actuated | `actuation.py`                |
|          | in which order cgroups are written; may a memory limit go down now    | `plan.py` (pure)              |
| report   | conditions and resources are written to the pod's status              | `node/pod_status_reporter.py` |

`node/resource_views.py` defines the four views of a pod's resources: desired, allocated, actuated, actual.
"""
