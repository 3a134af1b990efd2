"""The pods that both nodes run. A case is a pod, what it needs beside itself, and the steps that lead to its records.

Every step waits for something to be true of the pod and takes one record. Containers print what they see of themselves;
their output is a part of the record.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from kohort.objects.json_types import JsonObject

IMAGE = "kohort.test/busybox:1"
USER_IMAGE = "kohort.test/user:1"
NAMED_USER_IMAGE = "kohort.test/named-user:1"
SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.2; done"
FOREVER = ["sh", "-c", SLEEP]
Condition = Callable[[JsonObject], bool]


class Step(msgspec.Struct, frozen=True):
    until: Condition
    resize: JsonObject | None = None
    """The spec of a patch of the subresource `resize`, sent first."""
    refused: bool = False
    """Whether the API server refuses that patch."""
    ephemeral: JsonObject | None = None
    """An ephemeral container that is added first."""
    delete: int | None = None
    """The pod is deleted first, with this grace period."""
    shell: tuple[str, str] | None = None
    """A container, and a script that runs in it first."""


class Case(msgspec.Struct, frozen=True):
    name: str
    spec: JsonObject
    steps: tuple[Step, ...]
    objects: tuple[JsonObject, ...] = ()
    metadata: JsonObject = {}
    order_of_output: bool = True
    """Whether the lines of a container's output come in the same order every time."""


# What steps wait for


def statuses(pod: JsonObject) -> list[JsonObject]:
    status = pod["status"]
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return [each for kind in kinds for each in status.get(kind) or []]


def status_of(pod: JsonObject, container: str) -> JsonObject:
    return next((each for each in statuses(pod) if each["name"] == container), {})


def condition(pod: JsonObject, type: str) -> JsonObject:
    return next((each for each in pod["status"].get("conditions") or [] if each["type"] == type), {})


def ready(pod: JsonObject) -> bool:
    return bool(condition(pod, "Ready").get("status") == "True")


def succeeded(pod: JsonObject) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")


def failed(pod: JsonObject) -> bool:
    return bool(pod["status"].get("phase") == "Failed")


def waits(reason: str, container: str = "c") -> Condition:
    return lambda pod: status_of(pod, container).get("state", {}).get("waiting", {}).get("reason") == reason


def restarted(times: int, container: str = "c") -> Condition:
    return lambda pod: status_of(pod, container).get("restartCount", 0) >= times


def runs(container: str) -> Condition:
    return lambda pod: "running" in status_of(pod, container).get("state", {})


def ended(container: str) -> Condition:
    return lambda pod: "terminated" in status_of(pod, container).get("state", {})


def both(*conditions: Condition) -> Condition:
    return lambda pod: all(each(pod) for each in conditions)


def resized(pod: JsonObject) -> bool:
    conditions = pod["status"].get("conditions") or []
    observed = pod["status"].get("observedGeneration", 0) >= pod["metadata"]["generation"]
    return observed and not any(each["type"].startswith("PodResize") for each in conditions)


def resize_fails(pod: JsonObject) -> bool:
    return bool(condition(pod, "PodResizeInProgress").get("reason") == "Error")


def gone(pod: JsonObject) -> bool:
    return not pod


def released(pod: JsonObject) -> bool:
    """The node has given the pod up; a finalizer keeps it for the record."""
    metadata = pod["metadata"]
    return "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") == 0


# Pods


def container(script: str = SLEEP, name: str = "c", **more: Any) -> JsonObject:
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **more}


def spec(*containers: JsonObject, **more: Any) -> JsonObject:
    return {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": list(containers or (container(),)),
        **more,
    }


def ended_case(name: str, wanted: Condition, *containers: JsonObject, **more: Any) -> Case:
    """A pod that does not restart, until it has ended."""
    return Case(name, spec(*containers, restartPolicy="Never", **more), (Step(wanted),))


def block(cpu: tuple[str, str], memory: tuple[str, str]) -> JsonObject:
    return {"requests": {"cpu": cpu[0], "memory": memory[0]}, "limits": {"cpu": cpu[1], "memory": memory[1]}}


def both_equal(cpu: str, memory: str) -> JsonObject:
    return block((cpu, cpu), (memory, memory))


def change(resources: JsonObject, name: str = "c") -> JsonObject:
    return {"containers": [{"name": name, "resources": resources}]}


CONFIG = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "default"},
    "data": {"color": "blue", "size": "7", "bad-name": "x"},
}
SECRET = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "hidden", "namespace": "default"},
    "stringData": {"password": "swordfish", "token": "t0ken"},
}


def field(path: str) -> JsonObject:
    return {"fieldRef": {"fieldPath": path}}


def resource(name: str, container: str = "c", divisor: str = "1") -> JsonObject:
    return {"resourceFieldRef": {"resource": name, "containerName": container, "divisor": divisor}}


def variables(**values: Any) -> list[JsonObject]:
    return [
        {"name": name, **({"value": each} if isinstance(each, str) else {"valueFrom": each})}
        for name, each in values.items()
    ]


OWN = "id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status"

ENVIRONMENT = (
    Case(
        "environment-plain-and-expanded",
        spec(
            container(
                'echo $A $B $C; echo "$@"',
                env=variables(A="one", B="$(A)-two", C="$$(A) $(MISSING)"),
                args=["zero", "$(B)", "$$(B)", "$(NONE)"],
            ),
            restartPolicy="Never",
        ),
        (Step(succeeded),),
    ),
    Case(
        "environment-from-config-map-and-secret",
        spec(
            container(
                "env | grep -vE '^(PWD|SHLVL|HOME|PATH|HOSTNAME|KUBERNETES)' | sort",
                env=variables(
                    COLOR={"configMapKeyRef": {"name": "settings", "key": "color"}},
                    PASSWORD={"secretKeyRef": {"name": "hidden", "key": "password"}},
                    ABSENT={"configMapKeyRef": {"name": "settings", "key": "none", "optional": True}},
                ),
                envFrom=[
                    {"prefix": "S_", "configMapRef": {"name": "settings"}},
                    {"secretRef": {"name": "hidden"}},
                    {"configMapRef": {"name": "not-there", "optional": True}},
                ],
            ),
            restartPolicy="Never",
        ),
        (Step(succeeded),),
        (CONFIG, SECRET),
    ),
    Case(
        "environment-of-the-downward-api",
        spec(
            container(
                "env | grep ^D_ | sort",
                resources=block(("50m", "100m"), ("16Mi", "32Mi")),
                env=variables(
                    D_NAME=field("metadata.name"),
                    D_NAMESPACE=field("metadata.namespace"),
                    D_LABEL=field("metadata.labels['app']"),
                    D_ANNOTATION=field("metadata.annotations['note']"),
                    D_NODE=field("spec.nodeName"),
                    D_ACCOUNT=field("spec.serviceAccountName"),
                    D_CPU_LIMIT=resource("limits.cpu"),
                    D_CPU_REQUEST=resource("requests.cpu", divisor="1m"),
                    D_MEMORY_LIMIT=resource("limits.memory"),
                    D_MEMORY_REQUEST=resource("requests.memory", divisor="1Mi"),
                ),
            ),
            restartPolicy="Never",
        ),
        (Step(succeeded),),
        metadata={"labels": {"app": "twin"}, "annotations": {"note": "two words"}},
    ),
    Case(
        "environment-with-the-pod-address",
        spec(
            container(
                'test -n "$IP" && ip -4 addr show eth0 | grep -q " $IP/" && echo same; echo $HOSTS | wc -w',
                env=variables(IP=field("status.podIP"), HOSTS=field("status.podIPs")),
            ),
            restartPolicy="Never",
        ),
        (Step(succeeded),),
    ),
    Case(
        "resources-of-a-container-without-limits",
        spec(
            container(
                "test $CPU -ge 1 && test $MEMORY -gt 100000000 && echo those of the node",
                env=variables(CPU=resource("limits.cpu"), MEMORY=resource("limits.memory")),
            ),
            restartPolicy="Never",
        ),
        (Step(succeeded),),
    ),
)

COMMANDS = (
    Case("image-command", spec({"name": "c", "image": IMAGE, "resources": {}}), (Step(ready),)),
    Case(
        "arguments-only",
        spec({"name": "c", "image": USER_IMAGE, "args": ["-c", "echo from args; id -u; pwd"]}, restartPolicy="Never"),
        (Step(succeeded),),
    ),
    Case(
        "working-directory",
        spec(container("pwd; ls -d .", workingDir="/data/deep"), restartPolicy="Never"),
        (Step(succeeded),),
    ),
    Case(
        "program-missing",
        spec({"name": "c", "image": IMAGE, "command": ["/no/such/program"]}, restartPolicy="Never"),
        (Step(failed),),
    ),
    Case(
        "standard-error-and-output",
        spec(container("echo out; echo err >&2; printf unfinished"), restartPolicy="Never"),
        (Step(succeeded),),
        order_of_output=False,
    ),
)

ENDS = (
    ended_case("ends-well", succeeded, container("exit 0")),
    ended_case("ends-with-7", failed, container("exit 7")),
    ended_case("ends-by-a-signal", failed, container("kill -9 $$")),
    ended_case("one-of-two-fails", failed, container("exit 0"), container("exit 3", "d")),
    Case(
        "restarts-on-failure",
        spec(container("exit 4"), restartPolicy="OnFailure"),
        (Step(both(restarted(1), waits("CrashLoopBackOff"))),),
    ),
    Case("does-not-restart-on-success", spec(container("exit 0"), restartPolicy="OnFailure"), (Step(succeeded),)),
    Case(
        "always-restarts",
        spec(container("exit 0"), restartPolicy="Always"),
        (Step(both(restarted(1), waits("CrashLoopBackOff"))),),
    ),
    Case(
        "out-of-memory",
        spec(
            container("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done", resources=block(("50m", "1"), ("16Mi", "24Mi"))),
            restartPolicy="Never",
        ),
        (Step(failed),),
    ),
    Case("active-deadline", spec(container("sleep 1000"), activeDeadlineSeconds=5), (Step(failed),)),
    Case(
        "deleted-within-the-grace-period",
        spec(
            container("trap 'echo stopped; exit 5' TERM; while :; do sleep 0.1; done"), terminationGracePeriodSeconds=20
        ),
        (Step(ready), Step(released, delete=20)),
    ),
)

MESSAGES = (
    ended_case(
        "termination-message-of-a-file", succeeded, container("printf 'said at the end' > /dev/termination-log")
    ),
    ended_case(
        "termination-message-elsewhere",
        failed,
        container("echo here > /tmp/last; exit 1", terminationMessagePath="/tmp/last"),
    ),
    ended_case(
        "termination-message-of-the-log",
        failed,
        container("echo first; echo last words; exit 1", terminationMessagePolicy="FallbackToLogsOnError"),
    ),
    ended_case(
        "no-message-of-the-log-on-success",
        succeeded,
        container("echo last words", terminationMessagePolicy="FallbackToLogsOnError"),
    ),
)

ORDER = (
    Case(
        "init-containers",
        spec(
            container("cat /work/*; exit 0", volumeMounts=[{"name": "work", "mountPath": "/work"}]),
            restartPolicy="Never",
            initContainers=[
                container("echo 1 > /work/1", "first", volumeMounts=[{"name": "work", "mountPath": "/work"}]),
                container(
                    "cat /work/1; echo 2 > /work/2", "second", volumeMounts=[{"name": "work", "mountPath": "/work"}]
                ),
            ],
            volumes=[{"name": "work", "emptyDir": {}}],
        ),
        (Step(succeeded),),
    ),
    Case(
        "init-container-fails",
        spec(initContainers=[container("exit 9", "first")], restartPolicy="Never"),
        (Step(failed),),
    ),
    Case(
        "sidecar-of-a-pod-that-ends",
        spec(
            container("exit 0"),
            restartPolicy="Never",
            initContainers=[container(SLEEP, "side", restartPolicy="Always")],
        ),
        (Step(succeeded),),
    ),
    Case(
        "sidecar-with-a-startup-probe",
        spec(
            initContainers=[
                container(
                    "sleep 2; touch /tmp/up; " + SLEEP,
                    "side",
                    restartPolicy="Always",
                    startupProbe={
                        "exec": {"command": ["test", "-f", "/tmp/up"]},
                        "periodSeconds": 1,
                        "timeoutSeconds": 10,
                        "failureThreshold": 60,
                    },
                ),
                container("echo after", "then"),
            ]
        ),
        (Step(ready),),
    ),
    Case(
        "ephemeral-container",
        spec(),
        (
            Step(ready),
            Step(
                ended("debug"),
                ephemeral={
                    "name": "debug",
                    "image": IMAGE,
                    "command": ["sh", "-c", "echo looked; exit 6"],
                    "targetContainerName": "c",
                },
            ),
        ),
    ),
    Case(
        "shared-process-namespace",
        spec(
            container("sleep 1; ps | grep -c 'while :' | head -1; " + SLEEP),
            container(SLEEP, "d"),
            shareProcessNamespace=True,
        ),
        (Step(ready),),
    ),
)

PROBES = (
    Case(
        "readiness-by-command",
        spec(
            container(
                "sleep 2; touch /tmp/ready; " + SLEEP,
                readinessProbe={
                    "exec": {"command": ["test", "-f", "/tmp/ready"]},
                    "periodSeconds": 1,
                    "timeoutSeconds": 10,
                },
            )
        ),
        (Step(ready),),
    ),
    Case(
        "readiness-over-http",
        spec(
            container(
                "mkdir /tmp/www; echo ok > /tmp/www/health; httpd -f -p 8080 -h /tmp/www",
                readinessProbe={"httpGet": {"path": "/health", "port": 8080}, "periodSeconds": 1, "timeoutSeconds": 10},
            )
        ),
        (Step(ready),),
    ),
    Case(
        "readiness-over-tcp",
        spec(
            container(
                "httpd -f -p 8080 -h /tmp",
                ports=[{"name": "web", "containerPort": 8080}],
                readinessProbe={"tcpSocket": {"port": "web"}, "periodSeconds": 1, "timeoutSeconds": 10},
            )
        ),
        (Step(ready),),
    ),
    Case(
        "liveness-restarts",
        spec(
            container(
                "test -f /data/seen || { touch /data/seen; sleep 1000; }; " + SLEEP,
                volumeMounts=[{"name": "data", "mountPath": "/data"}],
                livenessProbe={
                    "exec": {"command": ["sh", "-c", "ps | grep -v grep | grep -q 'sleep 0.2' || test -f /tmp/no"]},
                    "initialDelaySeconds": 1,
                    "periodSeconds": 2,
                    "failureThreshold": 1,
                    "timeoutSeconds": 5,
                },
            ),
            volumes=[{"name": "data", "emptyDir": {}}],
        ),
        (Step(both(restarted(1), ready)),),
    ),
    Case(
        "startup-probe-fails",
        spec(
            container(
                "sleep 1000",
                startupProbe={
                    "exec": {"command": ["false"]},
                    "periodSeconds": 1,
                    "timeoutSeconds": 10,
                    "failureThreshold": 2,
                },
            ),
            restartPolicy="Never",
        ),
        (Step(failed),),
    ),
)

HOOKS = (
    Case(
        "post-start",
        spec(
            container(
                "until test -f /tmp/hook; do sleep 0.1; done; cat /tmp/hook; " + SLEEP,
                lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "echo hooked > /tmp/hook"]}}},
            )
        ),
        (Step(ready),),
    ),
    Case(
        "post-start-fails",
        spec(
            container("sleep 1000", lifecycle={"postStart": {"exec": {"command": ["sh", "-c", "exit 3"]}}}),
            restartPolicy="Never",
        ),
        (Step(failed),),
    ),
    Case(
        "pre-stop",
        spec(
            container(
                SLEEP,
                lifecycle={"preStop": {"exec": {"command": ["sh", "-c", "echo stopping > /shared/said"]}}},
                volumeMounts=[{"name": "shared", "mountPath": "/shared"}],
            ),
            terminationGracePeriodSeconds=10,
            volumes=[{"name": "shared", "emptyDir": {}}],
        ),
        (Step(ready), Step(released, delete=10)),
    ),
)

SECURITY = (
    ended_case(
        "user-and-groups",
        succeeded,
        container(OWN),
        securityContext={"runAsUser": 1000, "runAsGroup": 3000, "fsGroup": 4000, "supplementalGroups": [5000]},
    ),
    ended_case("user-of-the-image", succeeded, {"name": "c", "image": USER_IMAGE, "command": ["sh", "-c", OWN]}),
    ended_case(
        "named-user-of-the-image", succeeded, {"name": "c", "image": NAMED_USER_IMAGE, "command": ["sh", "-c", OWN]}
    ),
    Case(
        "non-root-refused",
        spec(container(), securityContext={"runAsNonRoot": True}),
        (Step(waits("CreateContainerConfigError")),),
    ),
    Case(
        "non-root-named-user-refused",
        spec({"name": "c", "image": NAMED_USER_IMAGE}, securityContext={"runAsNonRoot": True}),
        (Step(waits("CreateContainerConfigError")),),
    ),
    ended_case(
        "capabilities",
        succeeded,
        container(OWN, securityContext={"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "CHOWN"]}}),
    ),
    ended_case(
        "no-new-privileges",
        succeeded,
        container(OWN, securityContext={"allowPrivilegeEscalation": False, "runAsUser": 1000}),
    ),
    ended_case(
        "read-only-root",
        succeeded,
        container(
            "touch /tmp/x 2>&1; touch /data/x && echo written",
            securityContext={"readOnlyRootFilesystem": True},
            volumeMounts=[{"name": "data", "mountPath": "/data"}],
        ),
        volumes=[{"name": "data", "emptyDir": {}}],
    ),
    ended_case(
        "seccomp-of-the-runtime",
        succeeded,
        container(OWN),
        securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
    ),
    ended_case("privileged", succeeded, container(OWN, securityContext={"privileged": True})),
    ended_case(
        "sysctls",
        succeeded,
        container("cat /proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_unprivileged_port_start"),
        securityContext={
            "sysctls": [
                {"name": "kernel.shm_rmid_forced", "value": "1"},
                {"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"},
            ]
        },
    ),
    ended_case(
        "forbidden-sysctl",
        failed,
        container("echo never"),
        securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1000"}]},
    ),
)

VOLUMES = (
    ended_case(
        "empty-directories",
        succeeded,
        container(
            "stat -c %a /disk /memory; grep ' /memory ' /proc/mounts | tr ', ' '\\n\\n' | grep -E '^(size|tmpfs)'",
            volumeMounts=[{"name": "disk", "mountPath": "/disk"}, {"name": "memory", "mountPath": "/memory"}],
        ),
        volumes=[
            {"name": "disk", "emptyDir": {}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Mi"}},
        ],
    ),
    ended_case(
        "group-of-volumes",
        succeeded,
        container(
            "stat -c '%a %g' /disk; echo x > /disk/x; stat -c '%a %u %g' /disk/x",
            volumeMounts=[{"name": "disk", "mountPath": "/disk"}],
        ),
        volumes=[{"name": "disk", "emptyDir": {}}],
        securityContext={"fsGroup": 4000, "runAsUser": 1000},
    ),
    Case(
        "projected-volume",
        spec(
            container(
                "cd /all; for f in color password labels cpu; do echo $f $(stat -Lc %a $f) $(cat $f); done; ls /all",
                volumeMounts=[{"name": "all", "mountPath": "/all", "readOnly": True}],
                resources={"limits": {"cpu": "100m", "memory": "32Mi"}},
            ),
            restartPolicy="Never",
            volumes=[
                {
                    "name": "all",
                    "projected": {
                        "defaultMode": 0o440,
                        "sources": [
                            {"configMap": {"name": "settings", "items": [{"key": "color", "path": "color"}]}},
                            {
                                "secret": {
                                    "name": "hidden",
                                    "items": [{"key": "password", "path": "password", "mode": 0o400}],
                                }
                            },
                            {
                                "downwardAPI": {
                                    "items": [
                                        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                                        {
                                            "path": "cpu",
                                            "resourceFieldRef": {
                                                "containerName": "c",
                                                "resource": "limits.cpu",
                                                "divisor": "1m",
                                            },
                                        },
                                    ]
                                }
                            },
                        ],
                    },
                }
            ],
        ),
        (Step(succeeded),),
        (CONFIG, SECRET),
        metadata={"labels": {"app": "twin", "tier": "test"}},
    ),
    Case(
        "config-map-and-secret-volumes",
        spec(
            container(
                "cd /config; ls; cat color; stat -Lc %a color; df /secret | grep -c tmpfs; cat /secret/token",
                volumeMounts=[{"name": "config", "mountPath": "/config"}, {"name": "secret", "mountPath": "/secret"}],
            ),
            restartPolicy="Never",
            volumes=[
                {"name": "config", "configMap": {"name": "settings"}},
                {"name": "secret", "secret": {"secretName": "hidden", "defaultMode": 0o600}},
            ],
        ),
        (Step(succeeded),),
        (CONFIG, SECRET),
    ),
    Case(
        "part-of-a-volume",
        spec(
            container(
                "cat /one; echo $(ls /made | wc -l); stat -c %a /made",
                volumeMounts=[
                    {"name": "config", "mountPath": "/one", "subPath": "color"},
                    {"name": "disk", "mountPath": "/made", "subPathExpr": "$(WHO)/deep"},
                ],
                env=variables(WHO="twin"),
            ),
            restartPolicy="Never",
            volumes=[{"name": "config", "configMap": {"name": "settings"}}, {"name": "disk", "emptyDir": {}}],
        ),
        (Step(succeeded),),
        (CONFIG,),
    ),
    Case(
        "config-map-volume-missing",
        spec(
            container(volumeMounts=[{"name": "config", "mountPath": "/config"}]),
            volumes=[{"name": "config", "configMap": {"name": "nowhere"}}],
        ),
        (Step(waits("ContainerCreating")),),
    ),
)

IMAGES = (
    Case(
        "image-never-pulled",
        spec({"name": "c", "image": "kohort.test/absent:1", "imagePullPolicy": "Never"}),
        (Step(waits("ErrImageNeverPull")),),
    ),
    Case(
        "image-cannot-be-pulled",
        spec({"name": "c", "image": "127.0.0.1:9/absent:1"}),
        (Step(waits("ImagePullBackOff")),),
    ),
    Case("image-name-not-valid", spec({"name": "c", "image": "Not Valid"}), (Step(waits("InvalidImageName")),)),
    Case(
        "environment-from-missing-config-map",
        spec(container(env=variables(X={"configMapKeyRef": {"name": "nowhere", "key": "x"}}))),
        (Step(waits("CreateContainerConfigError")),),
    ),
    Case(
        "environment-from-missing-key",
        spec(container(env=variables(X={"secretKeyRef": {"name": "hidden", "key": "none"}}))),
        (Step(waits("CreateContainerConfigError")),),
        (SECRET,),
    ),
)

NAMES = (
    ended_case(
        "hostname-and-subdomain",
        succeeded,
        container(
            "hostname; cat /etc/hostname; hostname -f; grep -v '^#' /etc/hosts | tr '\\t' ' ' | sed 's/^[0-9.]* *//'"
        ),
        hostname="box",
        subdomain="many",
        hostAliases=[{"ip": "192.0.2.7", "hostnames": ["seven", "seven.example"]}],
    ),
    ended_case(
        "full-hostname", succeeded, container("hostname"), hostname="box", subdomain="many", setHostnameAsFQDN=True
    ),
    ended_case(
        "dns-of-the-pod-only",
        succeeded,
        container("cat /etc/resolv.conf"),
        dnsPolicy="None",
        dnsConfig={
            "nameservers": ["192.0.2.53"],
            "searches": ["example.test"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        },
    ),
    ended_case(
        "dns-of-the-cluster",
        succeeded,
        container("grep -v ^nameserver /etc/resolv.conf; grep -c ^nameserver /etc/resolv.conf"),
        dnsConfig={"searches": ["example.test"], "options": [{"name": "ndots", "value": "3"}]},
    ),
    ended_case("dns-of-the-machine", succeeded, container("cat /etc/resolv.conf"), dnsPolicy="Default"),
    ended_case(
        "network-of-the-machine",
        succeeded,
        container("cat /etc/resolv.conf; ls /sys/class/net | grep -c lo"),
        hostNetwork=True,
    ),
)

SMALL = block(("50m", "100m"), ("16Mi", "32Mi"))
CLASSES = (
    Case("best-effort", spec(), (Step(ready),)),
    Case("burstable", spec(container(resources=SMALL)), (Step(ready),)),
    Case("guaranteed", spec(container(resources=both_equal("100m", "32Mi"))), (Step(ready),)),
    Case(
        "burstable-of-two",
        spec(container(resources=SMALL), container(name="d", resources={"requests": {"cpu": "20m"}})),
        (Step(ready),),
    ),
    Case("memory-limit-only", spec(container(resources={"limits": {"memory": "32Mi"}})), (Step(ready),)),
    Case("smallest-cpu", spec(container(resources=block(("1m", "2m"), ("16Mi", "32Mi")))), (Step(ready),)),
    Case(
        "resources-of-the-pod",
        spec(container(), container(name="d"), resources=both_equal("100m", "64Mi")),
        (Step(ready),),
    ),
    Case(
        "resources-of-pod-and-container",
        spec(container(resources=SMALL), container(name="d"), resources=block(("80m", "200m"), ("48Mi", "96Mi"))),
        (Step(ready),),
    ),
    Case(
        "requests-of-the-pod",
        spec(container(), resources={"requests": {"cpu": "60m", "memory": "32Mi"}}),
        (Step(ready),),
    ),
    Case(
        "limits-of-a-sidecar",
        spec(
            container(resources=SMALL),
            initContainers=[container(SLEEP, "side", restartPolicy="Always", resources=both_equal("20m", "16Mi"))],
        ),
        (Step(ready),),
    ),
    Case(
        "larger-init-container",
        spec(
            container(resources=SMALL),
            initContainers=[container("exit 0", "first", resources=block(("200m", "300m"), ("24Mi", "64Mi")))],
        ),
        (Step(ready),),
    ),
)

RESTART_MEMORY = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
RESTART_CPU = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
FULL = both_equal("50m", "32Mi")
THREE = [("c", "30m", "24Mi"), ("d", "32m", "26Mi"), ("e", "34m", "28Mi")]


def trio(values: list[tuple[str, str, str]]) -> list[JsonObject]:
    return [{"name": name, "resources": both_equal(cpu, memory)} for name, cpu, memory in values]


RESIZES = (
    Case(
        "resize-guaranteed-live",
        spec(container(resources=FULL)),
        (
            Step(ready),
            Step(resized, change(both_equal("80m", "32Mi"))),
            Step(resized, change(both_equal("80m", "48Mi"))),
            Step(resized, change(both_equal("100m", "40Mi"))),
            Step(resized, change(FULL)),
        ),
    ),
    Case(
        "resize-restarts-for-memory",
        spec(container(resources=FULL, resizePolicy=RESTART_MEMORY)),
        (
            Step(ready),
            Step(resized, change(both_equal("80m", "32Mi"))),
            Step(both(resized, restarted(1), ready), change(both_equal("80m", "48Mi"))),
        ),
    ),
    Case(
        "resize-restarts-for-cpu",
        spec(container(resources=SMALL, resizePolicy=RESTART_CPU)),
        (
            Step(ready),
            Step(both(resized, restarted(1), ready), change(block(("60m", "100m"), ("16Mi", "32Mi")))),
            Step(resized, change(block(("60m", "100m"), ("16Mi", "48Mi")))),
        ),
    ),
    Case(
        "resize-burstable",
        spec(container(resources=SMALL)),
        (
            Step(ready),
            Step(resized, change(block(("70m", "100m"), ("16Mi", "32Mi")))),
            Step(resized, change(block(("70m", "150m"), ("16Mi", "32Mi")))),
            Step(resized, change(block(("70m", "150m"), ("24Mi", "32Mi")))),
            Step(resized, change(block(("90m", "120m"), ("20Mi", "40Mi")))),
        ),
    ),
    Case(
        "resize-of-a-sidecar",
        spec(
            container(resources=FULL),
            initContainers=[container(SLEEP, "side", restartPolicy="Always", resources=both_equal("20m", "16Mi"))],
        ),
        (
            Step(ready),
            Step(
                resized,
                {
                    "containers": [{"name": "c", "resources": both_equal("60m", "40Mi")}],
                    "initContainers": [{"name": "side", "resources": both_equal("30m", "20Mi")}],
                },
            ),
        ),
    ),
    Case(
        "resize-of-three-up-and-down",
        spec(*(container(name=name, resources=both_equal(cpu, memory)) for name, cpu, memory in THREE)),
        (
            Step(ready),
            Step(resized, {"containers": trio([("c", "50m", "34Mi"), ("d", "42m", "36Mi"), ("e", "24m", "20Mi")])}),
            Step(resized, {"containers": trio([("c", "60m", "24Mi"), ("d", "22m", "20Mi"), ("e", "20m", "34Mi")])}),
        ),
    ),
    Case(
        "resize-adds-limits",
        spec(
            container(resources={"requests": {"cpu": "50m", "memory": "24Mi"}}),
            container(name="d", resources={"requests": {"memory": "24Mi"}}),
        ),
        (
            Step(ready),
            Step(
                resized,
                {
                    "containers": [
                        {"name": "c", "resources": {"requests": {"cpu": "60m"}, "limits": {"cpu": "90m"}}},
                        {
                            "name": "d",
                            "resources": {"requests": {"cpu": "20m", "memory": "20Mi"}, "limits": {"memory": "48Mi"}},
                        },
                    ]
                },
            ),
        ),
    ),
    Case(
        "resize-below-the-smallest",
        spec(container(resources=block(("2m", "10m"), ("16Mi", "32Mi")))),
        (
            Step(ready),
            Step(resized, change(block(("1m", "5m"), ("16Mi", "32Mi")))),
        ),
    ),
    Case(
        "resize-of-memory-in-use",
        spec(
            container(
                "dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>/dev/null; touch /tmp/ready; " + SLEEP,
                resources=both_equal("100m", "48Mi"),
                readinessProbe={
                    "exec": {"command": ["test", "-f", "/tmp/ready"]},
                    "periodSeconds": 1,
                    "timeoutSeconds": 10,
                },
                volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}],
            ),
            volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}],
        ),
        (
            Step(ready),
            Step(resize_fails, change(both_equal("100m", "16Mi"))),
            Step(resized, change(both_equal("100m", "48Mi"))),
        ),
    ),
    Case(
        "resize-of-the-pod",
        spec(container(), container(name="d", resources=SMALL), resources=block(("80m", "200m"), ("48Mi", "96Mi"))),
        (
            Step(ready),
            Step(resized, {"resources": block(("100m", "300m"), ("48Mi", "96Mi"))}),
            Step(resized, {"resources": block(("100m", "300m"), ("48Mi", "128Mi"))}),
            Step(resized, {"resources": block(("80m", "200m"), ("48Mi", "96Mi"))}),
        ),
    ),
    Case(
        "resize-of-the-pod-and-a-container",
        spec(
            container(resources=SMALL),
            container(name="d", resources=SMALL),
            resources=block(("120m", "300m"), ("64Mi", "128Mi")),
        ),
        (
            Step(ready),
            Step(
                resized,
                {
                    "resources": block(("150m", "400m"), ("64Mi", "160Mi")),
                    "containers": [{"name": "c", "resources": block(("60m", "90m"), ("20Mi", "40Mi"))}],
                },
            ),
        ),
    ),
    Case(
        "resize-of-the-pod-restarts-who-inherits",
        spec(
            container(resizePolicy=RESTART_CPU),
            container(name="d", resources=SMALL),
            resources=block(("80m", "200m"), ("48Mi", "96Mi")),
        ),
        (
            Step(ready),
            Step(both(resized, restarted(1), ready), {"resources": block(("80m", "300m"), ("48Mi", "96Mi"))}),
        ),
    ),
    Case(
        "resize-adds-resources-of-the-pod",
        spec(container(resources=SMALL)),
        (
            Step(ready),
            Step(resized, {"resources": block(("60m", "200m"), ("32Mi", "64Mi"))}),
        ),
    ),
    Case(
        "resize-refused",
        spec(container(resources=SMALL)),
        (
            Step(ready),
            Step(ready, change(both_equal("100m", "32Mi")), refused=True),
        ),
    ),
)

CASES = (
    *ENVIRONMENT,
    *COMMANDS,
    *ENDS,
    *MESSAGES,
    *ORDER,
    *PROBES,
    *HOOKS,
    *SECURITY,
    *VOLUMES,
    *IMAGES,
    *NAMES,
    *CLASSES,
    *RESIZES,
)
