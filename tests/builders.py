"""Objects for tests, one line each.

    pod("web-0").labels(app="web").requests(cpu="500m").on("node-1").ready()
    lws("inference").replicas(2).size(4).max_surge(1)

A builder *is* the object, a dictionary ready to be sent; every step returns a new one, so a common beginning can be
shared. `as_view(Pod)` gives the typed view instead. What an API server would default is left out, except where nothing
works without it.
"""

import copy
from collections.abc import Mapping
from typing import Self, TypeVar

import msgspec

from kohort.objects.json_types import Json, JsonObject

V = TypeVar("V")

IMAGE = "registry.example.com/pause:3"
NO_TEXT: Mapping[str, str] = {}


class Built(dict[str, Json]):
    """What all kinds can do."""

    def but(self, path: str, value: Json) -> Self:
        """The same object with the value at `path` (`spec.template.spec.nodeName`, list items by number) replaced; None
        removes it."""
        result = copy.deepcopy(self)
        place: Json = result
        *steps, last = path.split(".")
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        if value is None:
            place.pop(last, None)
        elif isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value
        return result

    def at(self, path: str, default: Json = None) -> Json:
        place: Json = self
        for step in path.split("."):
            if isinstance(place, list):
                place = place[int(step)]
            elif step not in place:
                return default
            else:
                place = place[step]
        return place

    def added(self, path: str, *items: Json) -> Self:
        """With more items in the list at `path`."""
        return self.but(path, [*self.at(path, []), *items])

    def merged(self, path: str, *more: Mapping[str, Json]) -> Self:
        """With more members in the object at `path`."""
        result = dict(self.at(path, {}))
        for each in more:
            result |= each
        return self.but(path, result)

    def as_view(self, view: type[V]) -> V:
        return msgspec.json.decode(msgspec.json.encode(self), type=view)

    # Metadata

    @property
    def name(self) -> str:
        return str(self["metadata"]["name"])

    def namespaced(self, namespace: str) -> Self:
        return self.but("metadata.namespace", namespace)

    def labels(self, labels: Mapping[str, str] = NO_TEXT, **more: str) -> Self:
        return self.merged("metadata.labels", labels, more)

    def annotations(self, annotations: Mapping[str, str] = NO_TEXT, **more: str) -> Self:
        return self.merged("metadata.annotations", annotations, more)

    def uid(self, uid: str) -> Self:
        return self.but("metadata.uid", uid)

    def version(self, version: int) -> Self:
        return self.but("metadata.resourceVersion", str(version))

    def generation(self, number: int) -> Self:
        return self.but("metadata.generation", number)

    def created(self, time: str) -> Self:
        return self.but("metadata.creationTimestamp", time)

    def deleting(self, time: str = "2026-01-01T00:00:00Z") -> Self:
        return self.but("metadata.deletionTimestamp", time)

    def owned_by(self, owner: JsonObject, *, controller: bool = True) -> Self:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"].get("uid", f"uid-of-{owner['metadata']['name']}"),
        }
        flags = {"controller": True, "blockOwnerDeletion": True} if controller else {}
        return self.added("metadata.ownerReferences", reference | flags)

    def condition(self, type: str, status: str = "True", **more: Json) -> Self:
        others = [each for each in self.at("status.conditions", []) if each["type"] != type]
        return self.but("status.conditions", [*others, {"type": type, "status": status, **more}])


def _new(kind: type[V], api_version: str, name: str, namespace: str, **rest: Json) -> V:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    document = {"apiVersion": api_version, "kind": kind.__name__, "metadata": metadata, **copy.deepcopy(rest)}
    return kind(document)  # type: ignore[call-arg]


def container(
    name: str = "main",
    image: str = IMAGE,
    *,
    requests: Mapping[str, str] = NO_TEXT,
    limits: Mapping[str, str] = NO_TEXT,
    **more: Json,
) -> JsonObject:
    given = {kind: dict(values) for kind, values in (("requests", requests), ("limits", limits)) if values}
    return {"name": name, "image": image, **({"resources": given} if given else {}), **more}


class _HasPod(Built):
    """Steps that concern a pod's spec, in a pod or in a template."""

    _spec = "spec"

    def containers(self, *containers: JsonObject) -> Self:
        """Instead of the one that is there."""
        return self.but(f"{self._spec}.containers", [*containers])

    def container(self, name: str, image: str = IMAGE, **more: Json) -> Self:
        """One more."""
        return self.added(f"{self._spec}.containers", container(name, image, **more))

    def init_container(self, name: str, image: str = IMAGE, **more: Json) -> Self:
        return self.added(f"{self._spec}.initContainers", container(name, image, **more))

    def requests(self, resources: Mapping[str, str] = NO_TEXT, **more: str) -> Self:
        """Of the first container."""
        return self.merged(f"{self._spec}.containers.0.resources.requests", resources, more)

    def node_selector(self, labels: Mapping[str, str] = NO_TEXT, **more: str) -> Self:
        return self.merged(f"{self._spec}.nodeSelector", labels, more)

    def tolerates(self, key: str = "", effect: str = "", value: str | None = None, **more: Json) -> Self:
        toleration: JsonObject = {"operator": "Exists" if value is None else "Equal", **more}
        toleration |= {name: text for name, text in (("key", key), ("effect", effect), ("value", value)) if text}
        return self.added(f"{self._spec}.tolerations", toleration)

    def volume(self, name: str, **source: Json) -> Self:
        return self.added(f"{self._spec}.volumes", {"name": name, **source})


class Pod(_HasPod):
    def on(self, node: str) -> Self:
        return self.but("spec.nodeName", node)

    def phase(self, phase: str) -> Self:
        return self.but("status.phase", phase)

    def ready(self, ready: bool = True, *, restarts: int = 0) -> Self:
        """Running, with all containers started; ready or not."""
        states = [
            {"name": each["name"], "ready": ready, "started": True, "restartCount": restarts, "image": each["image"]}
            for each in self.at("spec.containers")
        ]
        running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        started = self.phase("Running").but(
            "status.containerStatuses", [{**state, "state": running} for state in states]
        )
        status = "True" if ready else "False"
        return started.condition("Initialized").condition("ContainersReady", status).condition("Ready", status)


def pod(name: str = "pod", namespace: str = "default") -> Pod:
    return _new(Pod, "v1", name, namespace, spec={"containers": [container()]})


class _Workload(_HasPod):
    """Kinds that make pods from a template with the label `app`."""

    _spec = "spec.template.spec"

    def replicas(self, count: int) -> Self:
        return self.but("spec.replicas", count)

    def template(self, pod: JsonObject) -> Self:
        """The pod to make; the selected label stays."""
        labels = {**pod["metadata"].get("labels", {}), **self.at("spec.selector.matchLabels", {})}
        metadata = {"labels": labels}
        if "annotations" in pod["metadata"]:
            metadata["annotations"] = pod["metadata"]["annotations"]
        return self.but("spec.template", {"metadata": metadata, "spec": copy.deepcopy(pod["spec"])})


def _workload(kind: type[V], api_version: str, name: str, namespace: str, **spec: Json) -> V:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    return _new(
        kind, api_version, name, namespace, spec={"selector": {"matchLabels": labels}, "template": template, **spec}
    )


class StatefulSet(_Workload):
    def parallel(self) -> Self:
        return self.but("spec.podManagementPolicy", "Parallel")

    def partition(self, ordinal: int) -> Self:
        return self._rolling("partition", ordinal)

    def max_unavailable(self, count: int | str) -> Self:
        return self._rolling("maxUnavailable", count)

    def _rolling(self, field: str, value: Json) -> Self:
        rolling = self.but("spec.updateStrategy.type", "RollingUpdate")
        return rolling.but(f"spec.updateStrategy.rollingUpdate.{field}", value)


def stateful_set(name: str = "web", namespace: str = "default") -> StatefulSet:
    return _workload(StatefulSet, "apps/v1", name, namespace, serviceName=name)


class Deployment(_Workload):
    def rolling(self, *, surge: int | str = "25%", unavailable: int | str = "25%") -> Self:
        limits = {"maxSurge": surge, "maxUnavailable": unavailable}
        return self.but("spec.strategy", {"type": "RollingUpdate", "rollingUpdate": limits})


def deployment(name: str = "web", namespace: str = "default") -> Deployment:
    return _workload(Deployment, "apps/v1", name, namespace)


class Job(_HasPod):
    _spec = "spec.template.spec"

    def completions(self, count: int, parallelism: int = 1) -> Self:
        return self.but("spec.completions", count).but("spec.parallelism", parallelism)


def job(name: str = "job", namespace: str = "default") -> Job:
    template = {"spec": {"containers": [container()], "restartPolicy": "Never"}}
    return _new(Job, "batch/v1", name, namespace, spec={"template": template})


class LeaderWorkerSet(_HasPod):
    """Steps on pods concern the worker template."""

    _spec = "spec.leaderWorkerTemplate.workerTemplate.spec"

    def replicas(self, count: int) -> Self:
        return self.but("spec.replicas", count)

    def size(self, count: int) -> Self:
        return self.but("spec.leaderWorkerTemplate.size", count)

    def leader(self, pod: JsonObject) -> Self:
        """A leader that differs from the workers."""
        return self._template("leaderTemplate", pod)

    def workers(self, pod: JsonObject) -> Self:
        return self._template("workerTemplate", pod)

    def _template(self, which: str, pod: JsonObject) -> Self:
        metadata = {field: pod["metadata"][field] for field in ("labels", "annotations") if field in pod["metadata"]}
        template = {**({"metadata": metadata} if metadata else {}), "spec": pod["spec"]}
        return self.but(f"spec.leaderWorkerTemplate.{which}", copy.deepcopy(template))

    def startup(self, policy: str) -> Self:
        return self.but("spec.startupPolicy", policy)

    def restart(self, policy: str) -> Self:
        return self.but("spec.leaderWorkerTemplate.restartPolicy", policy)

    def max_surge(self, count: int | str) -> Self:
        return self._rolling("maxSurge", count)

    def max_unavailable(self, count: int | str) -> Self:
        return self._rolling("maxUnavailable", count)

    def partition(self, index: int) -> Self:
        return self._rolling("partition", index)

    def _rolling(self, field: str, value: Json) -> Self:
        rolling = self.but("spec.rolloutStrategy.type", "RollingUpdate")
        return rolling.but(f"spec.rolloutStrategy.rollingUpdateConfiguration.{field}", value)

    def subgroups(self, size: int, kind: str = "") -> Self:
        policy = {"subGroupSize": size, **({"subGroupPolicyType": kind} if kind else {})}
        return self.but("spec.leaderWorkerTemplate.subGroupPolicy", policy)

    def network(self, policy: str) -> Self:
        return self.but("spec.networkConfig", {"subdomainPolicy": policy})

    def exclusive(self, topology: str) -> Self:
        return self.annotations({"leaderworkerset.sigs.k8s.io/exclusive-topology": topology})


def lws(name: str = "groups", namespace: str = "default") -> LeaderWorkerSet:
    template = {"workerTemplate": {"spec": {"containers": [container()]}}}
    spec = {"leaderWorkerTemplate": template}
    return _new(LeaderWorkerSet, "leaderworkerset.x-k8s.io/v1", name, namespace, spec=spec)


class Service(Built):
    def selecting(self, labels: Mapping[str, str] = NO_TEXT, **more: str) -> Self:
        return self.merged("spec.selector", labels, more)

    def port(self, number: int, name: str = "", target: int | str | None = None, protocol: str = "TCP") -> Self:
        entry: JsonObject = {"port": number, "protocol": protocol, **({"name": name} if name else {})}
        return self.added("spec.ports", entry | ({} if target is None else {"targetPort": target}))

    def headless(self) -> Self:
        return self.but("spec.clusterIP", "None")


def service(name: str = "web", namespace: str = "default") -> Service:
    return _new(Service, "v1", name, namespace, spec={})
