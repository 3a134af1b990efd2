"""The checks of the pod security standards.

Each check looks at one property of a pod and, if it does not like it, says why: a short reason and, in parentheses,
who is to blame. `CHECKS` holds them with the level that they belong to, the release from which on they apply, and which
laxer check they replace. Releases matter because a namespace may ask for the standard as it was at one of them.

`hostPathImages` is not in the standard of Kubernetes, whose images never are files of the machine; here they can be.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from kohort.cluster.apiserver.admission.plugins.podsecurity.baseline import (
    app_armor,
    capabilities,
    host_images,
    host_namespaces,
    host_paths,
    host_ports,
    host_process,
    privileged,
    probe_hosts,
    proc_mount,
    proc_mount_baseline,
    seccomp_baseline,
    selinux,
    sysctls,
)
from kohort.cluster.apiserver.admission.plugins.podsecurity.pod_fields import Examine
from kohort.cluster.apiserver.admission.plugins.podsecurity.policy import BASELINE, RESTRICTED, Standard
from kohort.cluster.apiserver.admission.plugins.podsecurity.restricted import (
    dropped_capabilities,
    escalation,
    non_root,
    seccomp_restricted,
    user_zero,
    volume_types,
)
from kohort.objects.json_types import JsonObject


class Check(NamedTuple):
    name: str
    level: str
    since: int
    examine: Examine
    replaces: str = ""


def evaluate(standard: Standard, metadata: JsonObject, spec: JsonObject) -> list[tuple[str, str]]:
    """Everything that a pod violates."""
    chosen = [check for check in CHECKS if _applies(check, standard)]
    replaced = {check.replaces for check in chosen}
    found: list[tuple[str, str]] = []
    for check in chosen:
        if check.name not in replaced:
            finding = check.examine(metadata, spec, standard.minor)
            if finding is not None:
                found.append(finding)
    return found


def _applies(check: Check, standard: Standard) -> bool:
    if check.since > standard.minor:
        return False
    return standard.level == RESTRICTED or (standard.level == BASELINE and check.level == BASELINE)


def detailed(findings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in findings)


def reasons(findings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(reason for reason, _ in findings)


CHECKS: Final = (
    Check("appArmorProfile", BASELINE, 0, app_armor),
    Check("capabilities_baseline", BASELINE, 0, capabilities),
    Check("hostNamespaces", BASELINE, 0, host_namespaces),
    Check("hostPathVolumes", BASELINE, 0, host_paths),
    Check("hostPathImages", BASELINE, 0, host_images),
    Check("hostPorts", BASELINE, 0, host_ports),
    Check("hostProbesAndHostLifecycle", BASELINE, 34, probe_hosts),
    Check("privileged", BASELINE, 0, privileged),
    Check("procMount", BASELINE, 0, proc_mount_baseline),
    Check("seLinuxOptions", BASELINE, 0, selinux),
    Check("seccompProfile_baseline", BASELINE, 0, seccomp_baseline),
    Check("sysctls", BASELINE, 0, sysctls),
    Check("windowsHostProcess", BASELINE, 0, host_process),
    Check("allowPrivilegeEscalation", RESTRICTED, 8, escalation),
    Check("capabilities_restricted", RESTRICTED, 22, dropped_capabilities, replaces="capabilities_baseline"),
    Check("procMount_restricted", RESTRICTED, 35, proc_mount, replaces="procMount"),
    Check("restrictedVolumes", RESTRICTED, 0, volume_types, replaces="hostPathVolumes"),
    Check("runAsNonRoot", RESTRICTED, 0, non_root),
    Check("runAsUser", RESTRICTED, 23, user_zero),
    Check("seccompProfile_restricted", RESTRICTED, 19, seccomp_restricted, replaces="seccompProfile_baseline"),
)
"""In the order in which findings are reported."""
