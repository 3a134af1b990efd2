"""What is recorded of a pod: its status, its events, cgroup files, what the runtime was asked for, and its output.

Records of two nodes must be comparable, so everything that differs from run to run is replaced by a word: times, ids,
addresses, digests. Lists whose order means nothing become objects.
"""

import contextlib
import json
import re
from pathlib import Path
from typing import Any

from tests.kernel.twin.cases import Case
from tests.kernel.twin.nodes import Node

from kohort.kube.client import Client
from kohort.kube.resources import EVENTS
from kohort.node.grpc.status import RpcError
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.objects.json_types import Json, JsonObject

FILES = (
    *("cpu.max", "cpu.weight", "cpu.max.burst", "pids.max"),
    *("memory.max", "memory.high", "memory.min", "memory.low", "memory.swap.max", "memory.oom.group"),
)
UID = "io.kubernetes.pod.uid"
CONTAINER = "io.kubernetes.container.name"
WORDS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "UID"),
    (re.compile(r"\bsha256:[0-9a-f]{64}\b"), "DIGEST"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"\b(?:198\.1[89]|169\.254|192\.0\.2\.1\b)(?:\.\d+)*\b"), "ADDRESS"),
    (re.compile(r"\b\d+(?:\.\d+)?(?:ms|µs|s)\b"), "DURATION"),
    (re.compile(r"\b\d{10}\b"), "BYTES"),
    (re.compile(r"(127\.0\.0\.1):\d{4,5}->"), r"\1:PORT->"),
)
BY_NAME = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class Recorder:
    def __init__(self, node: Node, client: Client, runtime: CriClient) -> None:
        self._node = node
        self._client = client
        self._runtime = runtime

    async def take(self, case: Case, pod: JsonObject) -> JsonObject:
        uid = pod["metadata"]["uid"]
        containers = {} if "deletionTimestamp" in pod["metadata"] else await self._containers(uid)
        finished = pod["status"].get("phase") in ("Succeeded", "Failed")
        record: JsonObject = {
            "status": status(pod),
            "events": await self._events(uid),
            "cgroup": {} if finished else self._pod_cgroup(uid),  # that of a pod that has ended is about to be removed
            "containers": {name: await self._container(uid, id, case) for name, id in containers.items()},
        }
        cleaned: JsonObject = without_empty(record)
        return cleaned

    async def _containers(self, uid: str) -> dict[str, str]:
        """The id of the newest container of each name."""
        request = cri.ListContainersRequest(cri.ContainerFilter(label_selector={UID: uid}))
        found = (await self._runtime.call(cri.LIST_CONTAINERS, request)).containers
        newest = sorted(found, key=lambda each: each.created_at)
        return {each.labels[CONTAINER]: each.id for each in newest}

    async def container_id(self, uid: str, name: str) -> str:
        return (await self._containers(uid))[name]

    async def run(self, uid: str, container: str, script: str) -> None:
        request = cri.ExecSyncRequest(await self.container_id(uid, container), ("sh", "-c", script))
        answer = await self._runtime.call(cri.EXEC_SYNC, request)
        assert answer.exit_code == 0, answer

    async def _container(self, uid: str, id: str, case: Case) -> JsonObject:
        try:
            answer = await self._runtime.call(cri.CONTAINER_STATUS, cri.ContainerStatusRequest(id, True))
        except RpcError:
            return {}  # removed meanwhile
        assert answer.status is not None
        info = json.loads(answer.info.get("info", "{}"))
        record: JsonObject = {"asked": asked(info.get("runtimeSpec") or {})}
        lines = output(Path(answer.status.log_path))
        record["output"] = lines if case.order_of_output else sorted(lines)
        if answer.status.state == cri.ContainerState.RUNNING:
            place = self._place(uid)
            record["cgroup"] = files(place / id) if place else {}
            record["oom_score_adj"] = _oom_score_adj(info.get("pid", 0))
        return record

    def _place(self, uid: str) -> Path | None:
        return next(self._node.parent.glob(f"**/pod{uid}"), None)

    def _pod_cgroup(self, uid: str) -> JsonObject:
        place = self._place(uid)
        if place is None:
            return {}
        return {"path": words(str(place.relative_to(self._node.parent))), **files(place)}

    async def _events(self, uid: str) -> list[str]:
        found = (await self._client.list(EVENTS, "default")).items
        own = [each for each in found if each["involvedObject"].get("uid") == uid]
        return sorted({words(f"{each['type']} {each['reason']}: {each.get('message', '')}") for each in own})


def _oom_score_adj(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/oom_score_adj").read_text())
    except OSError:
        return None


def files(place: Path) -> JsonObject:
    found: JsonObject = {}
    for name in FILES:
        with contextlib.suppress(OSError):
            found[name] = (place / name).read_text().strip()
    return found


def status(pod: JsonObject) -> JsonObject:
    found = dict(pod["status"])
    found["generation"] = pod["metadata"].get("generation")
    if "hostIP" in found:  # kubelet is told its address, because this kernel has no route that shows it
        found |= {"hostIP": "ADDRESS", "hostIPs": ["ADDRESS"]}
        if found.get("podIP") == pod["status"]["hostIP"]:
            found |= {"podIP": "ADDRESS", "podIPs": [{"ip": "ADDRESS"}]}
    conditions = found.pop("conditions", None) or []
    found["conditions"] = {each["type"]: {k: v for k, v in each.items() if k != "type"} for each in conditions}
    for kind in BY_NAME:
        if kind in found:
            found[kind] = {each["name"]: each for each in found[kind]}
    cleaned: JsonObject = replaced(found)
    return cleaned


def asked(spec: JsonObject) -> JsonObject:
    """The parts of an OCI specification that a node decides."""
    process, linux = spec.get("process") or {}, spec.get("linux") or {}
    capabilities = process.get("capabilities") or {}
    resources = linux.get("resources") or {}
    found: JsonObject = {
        "args": process.get("args"),
        "env": sorted(each for each in process.get("env") or [] if not each.startswith("KUBERNETES_")),
        "cwd": process.get("cwd"),
        "user": process.get("user"),
        "noNewPrivileges": process.get("noNewPrivileges"),
        "oomScoreAdj": process.get("oomScoreAdj"),
        "capabilities": {name: sorted(each) for name, each in capabilities.items()},
        "readonlyRoot": (spec.get("root") or {}).get("readonly"),
        "hostname": spec.get("hostname"),
        "mounts": {
            each["destination"]: f"{each.get('type')} {','.join(sorted(each.get('options') or []))}"
            for each in spec.get("mounts") or []
        },
        "namespaces": sorted(
            f"{each['type']}{' of another' if each.get('path') else ''}" for each in linux.get("namespaces") or []
        ),
        "sysctl": linux.get("sysctl"),
        "maskedPaths": sorted(linux.get("maskedPaths") or []),
        "readonlyPaths": sorted(linux.get("readonlyPaths") or []),
        "seccomp": (linux.get("seccomp") or {}).get("defaultAction"),
        "cpu": resources.get("cpu"),
        "memory": resources.get("memory"),
    }
    cleaned: JsonObject = replaced(found)
    return cleaned


def output(path: Path) -> list[str]:
    """Lines of a log file, as the container has written them."""
    try:
        raw = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [words(" ".join(line.split(" ", 3)[1:])) for line in raw if line.count(" ") >= 2]


def words(text: str) -> str:
    for pattern, word in WORDS:
        text = pattern.sub(word, text)
    return text


def replaced(value: Json) -> Any:
    if isinstance(value, dict):
        return {name: replaced(each) for name, each in value.items()}
    if isinstance(value, list):
        return [replaced(each) for each in value]
    return words(value) if isinstance(value, str) else value


def without_empty(value: Json) -> Any:
    """Objects without the fields that say nothing: Go writes some of them, and leaves others out."""
    if isinstance(value, dict):
        cleaned = {name: without_empty(each) for name, each in value.items()}
        return {name: each for name, each in cleaned.items() if each not in (None, {}, [], "", False)}
    return [without_empty(each) for each in value] if isinstance(value, list) else value
