"""What pods request, what limits them, and which numbers the kernel needs for it. Pure; a library by itself.

`requests(pod, options)` and `limits(pod, options)` are the one place where a pod's effective resources are computed;
`Options` has a ready-made value for every kind of caller (`SPEC`, `ACCOUNTING`, `SANDBOX`, `CONTAINERS_ONLY`). Beside
them: quality-of-service class, `oom_score_adj`, and the content of cgroup v2 files.
"""

from kohort.resources.amounts import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Amounts,
    added,
    amounts_of,
    largest,
    summed,
    supported_at_pod_level,
    written_of,
)
from kohort.resources.cgroups import CgroupValues, Settings, container_cgroup, pod_cgroup
from kohort.resources.effective import (
    ACCOUNTING,
    CONTAINERS_ONLY,
    NON_ZERO,
    SANDBOX,
    SPEC,
    Options,
    aggregate,
    binding_limits,
    container_limit,
    limit_declared,
    limits,
    limits_of,
    non_zero_requests,
    pod_level_limits_set,
    pod_level_requests_set,
    pod_level_set,
    reported,
    requests,
    requests_of,
    resize_deferred,
    resize_infeasible,
    view_of,
)
from kohort.resources.oom import oom_score_adj
from kohort.resources.pod_level_defaults import with_pod_level_defaults
from kohort.resources.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, QosClass, qos_class, stored_qos_class

__all__ = [
    "ACCOUNTING",
    "BEST_EFFORT",
    "BURSTABLE",
    "CONTAINERS_ONLY",
    "CPU",
    "EPHEMERAL_STORAGE",
    "GUARANTEED",
    "MEMORY",
    "NON_ZERO",
    "SANDBOX",
    "SPEC",
    "Amounts",
    "CgroupValues",
    "Options",
    "QosClass",
    "Settings",
    "added",
    "aggregate",
    "amounts_of",
    "binding_limits",
    "container_cgroup",
    "container_limit",
    "largest",
    "limit_declared",
    "limits",
    "limits_of",
    "non_zero_requests",
    "oom_score_adj",
    "pod_cgroup",
    "pod_level_limits_set",
    "pod_level_requests_set",
    "pod_level_set",
    "qos_class",
    "reported",
    "requests",
    "requests_of",
    "resize_deferred",
    "resize_infeasible",
    "stored_qos_class",
    "summed",
    "supported_at_pod_level",
    "view_of",
    "with_pod_level_defaults",
    "written_of",
]
