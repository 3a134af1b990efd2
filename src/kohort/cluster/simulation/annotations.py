"""The annotations that define how pods on simulated nodes, and the nodes themselves, behave.

All names begin with `simulation.kohort.dev/`. Annotations of a node apply to all its pods without that annotation.
Times are `1.5s`, `500ms`, `2m`, or plain seconds. Annotations are read again whenever they change.

| on pods, or on nodes for their pods | meaning                                                              | default |
|-------------------------------------|----------------------------------------------------------------------|---------|
| start-latency                       | from being bound to containers running                               | 0s      |
| ready-latency                       | from running to ready                                                | 0s      |
| never-ready                         | `true`: runs and never gets ready                                    |         |
| readiness-flips                     | `10s,5s`: ready for 10 s, then not for 5 s, then ready; and so on    |         |
| waiting                             | a reason such as ImagePullBackOff: containers never start            |         |
| missing-images                      | `web:bad,test/*`: images (or patterns) that cannot be pulled; pods   |         |
|                                     | with one of them never start, reason ImagePullBackOff                |         |
| fail                                | `OutOfcpu` or `OutOfcpu: words`: the node rejects the pod            |         |
| exit-after                          | containers end this long after their start                           |         |
| exit-code                           | with this code; alone it implies `exit-after: 0s`                    | 0       |
| crashes                             | end only so often, then keep running; implies `exit-code: 1`         |         |
| crash                               | any text; whenever it changes, running containers end once           |         |
| restart-delay                       | between an end and the next start; else as kubelets: 0s, 10s, ... 5m |         |
| container                           | ends and readiness concern only the container of this name           | all     |
| termination-latency                 | from deletion to the end of the containers, within the grace period  | 0s      |
| metrics                             | `requests_waiting=12,other=3`: what autoscalers read of the pod      |         |
| usage                               | `cpu=900m,memory=2Gi`: what the pod uses, for `kubectl top`          | half of |
|                                     | and autoscalers; its containers share it equally                     | requests|
| resize                              | `deferred`, `infeasible` or `error`                                  | accept  |
| resize-message                      | its message                                                          |         |
| resize-latency                      | from the acceptance of a resize to its completion                    | 0s      |

| on nodes only | meaning                                                                                    |
|---------------|--------------------------------------------------------------------------------------------|
| lost          | `true`: the node is silent. No heartbeats, nothing happens to its pods, until it is removed |
| not-ready     | `true`, or a message: the node reports that it is not ready                                    |
"""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TypeVar

import msgspec

from kohort.objects import container_reasons
from kohort.objects.names import qualified_name
from kohort.objects.quantity import ZERO, Quantity
from kohort.rules.pod_admission import Rejection
from kohort.rules.simulation_labels import PREFIX

REQUESTED = PREFIX + "made"
"""Not for users: records with which capacity and labels `kohort up` created a node."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|)")
N = TypeVar("N", int, float)
RESIZES = ("accept", "deferred", "infeasible", "error")


class InvalidAnnotation(ValueError):
    """An annotation that cannot be read."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"annotation {PREFIX}{name}: {words}")
        self.annotation = PREFIX + name


class SimulatedBehavior(msgspec.Struct, frozen=True):
    start_latency: float = 0.0
    ready_latency: float = 0.0
    never_ready: bool = False
    readiness_flips: tuple[float, ...] = ()
    waiting: str = ""
    missing_images: tuple[str, ...] = ()
    fail: Rejection | None = None
    exit_after: float | None = None
    exit_code: int = 0
    crashes: int | None = None
    crash: str = ""
    restart_delay: float | None = None
    container: str = ""
    termination_latency: float = 0.0
    resize: str = "accept"
    resize_message: str = ""
    resize_latency: float = 0.0
    metrics: str = ""
    usage: str = ""

    def concern(self, container: str) -> bool:
        return not self.container or self.container == container

    def with_images(self, images: Iterable[str]) -> "SimulatedBehavior":
        """The behavior of a pod with these images: it never starts if one of them cannot be pulled."""
        if self.waiting or not self.missing_images:
            return self
        missing = any(fnmatchcase(image, pattern) for image in images for pattern in self.missing_images)
        return msgspec.structs.replace(self, waiting=container_reasons.IMAGE_PULL_BACK_OFF) if missing else self


_ON_PODS = frozenset(name.replace("_", "-") for name in SimulatedBehavior.__struct_fields__)
_ON_NODES = _ON_PODS | {"lost", "not-ready", "capacity", "made"}


def readable_behavior(
    pod: Mapping[str, str], node: Mapping[str, str], start_latency: float = 0.0
) -> tuple[SimulatedBehavior, list[InvalidAnnotation]]:
    """The behavior from all annotations that can be read, and what is wrong with the others."""
    if not _ours(pod) and not _ours(node):
        return SimulatedBehavior(start_latency=start_latency), []
    pod, node = dict(pod), dict(node)
    problems: list[InvalidAnnotation] = []
    while True:
        try:
            return pod_behavior(pod, node, start_latency), problems
        except InvalidAnnotation as problem:
            problems.append(problem)
            for annotations in (pod, node):
                annotations.pop(problem.annotation, None)


def node_problems(node: Mapping[str, str]) -> list[InvalidAnnotation]:
    """What is wrong with the annotations of a node, for itself and for its pods."""
    problems = readable_behavior({}, node)[1]
    try:
        annotated_capacity(node)
    except InvalidAnnotation as problem:
        problems.append(problem)
    return problems


def annotated_capacity(node: Mapping[str, str]) -> dict[str, str]:
    """What a node has according to its annotation `cpu=8,memory=32Gi`. Raises InvalidAnnotation."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in _ours(node).get("capacity", "").split(","))):
        name, _, amount = (text.strip() for text in item.partition("="))
        try:
            fits = not qualified_name(name) and Quantity.parse(amount) >= ZERO
        except ValueError:
            fits = False
        if not fits:
            raise InvalidAnnotation(
                "capacity", f"{item!r} is not a resource and its amount, such as cpu=8 or memory=64Gi"
            )
        found[name] = amount
    return found


def pod_behavior(pod: Mapping[str, str], node: Mapping[str, str], start_latency: float = 0.0) -> SimulatedBehavior:
    """The behavior in the annotations of a pod and of its node. Raises InvalidAnnotation."""
    _check_names(pod, _ON_PODS)
    _check_names(node, _ON_NODES)
    given = {**_ours(node), **_ours(pod)}
    crashes = _number(given, "crashes")
    code = _code(given, "exit-code")
    after = _seconds(given, "exit-after")
    if after is None and (crashes is not None or code is not None):
        after = 0.0
    return SimulatedBehavior(
        start_latency=_or(_seconds(given, "start-latency"), start_latency),
        ready_latency=_or(_seconds(given, "ready-latency"), 0.0),
        never_ready=_flag(given, "never-ready"),
        readiness_flips=tuple(
            _parse_seconds("readiness-flips", text) for text in given.get("readiness-flips", "").split(",") if text
        ),
        waiting=given.get("waiting", ""),
        missing_images=_names(given, "missing-images"),
        fail=_rejection(given.get("fail", "")),
        exit_after=after,
        exit_code=_or(code, 1 if crashes is not None else 0),
        crashes=crashes,
        crash=given.get("crash", ""),
        restart_delay=_seconds(given, "restart-delay"),
        container=given.get("container", ""),
        termination_latency=_or(_seconds(given, "termination-latency"), 0.0),
        resize=_choice(given, "resize", RESIZES),
        resize_message=given.get("resize-message", ""),
        resize_latency=_or(_seconds(given, "resize-latency"), 0.0),
        metrics=given.get("metrics", ""),
        usage=given.get("usage", ""),
    )


def _check_names(annotations: Mapping[str, str], known: frozenset[str]) -> None:
    for name in _ours(annotations):
        if name not in known:
            raise InvalidAnnotation(name, "is read on nodes only" if name in _ON_NODES else "is not known")


def is_lost(node: Mapping[str, str]) -> bool:
    return _ours(node).get("lost", "false") != "false"


def unready_message(node: Mapping[str, str]) -> str:
    """The message with which a node reports that it is not ready; empty when it is ready."""
    words = _ours(node).get("not-ready", "")
    return "" if words == "false" else "ordered by an annotation" if words == "true" else words


def _ours(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(PREFIX): value.strip() for key, value in annotations.items() if key.startswith(PREFIX)}


def _seconds(given: Mapping[str, str], name: str) -> float | None:
    return _parse_seconds(name, given[name]) if name in given else None


def _parse_seconds(name: str, text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidAnnotation(name, f"{text!r} is not a time such as 1.5s, 500ms or 2m")
    return float(found[1]) * _UNITS[found[2]]


def _rejection(order: str) -> Rejection | None:
    """
    >>> _rejection("OutOfcpu"), _rejection("OutOfcpu: not enough").message
    (Rejection(reason='OutOfcpu', message='Pod was rejected: OutOfcpu'), 'not enough')
    """
    reason, _, message = (part.strip() for part in order.partition(":"))
    return Rejection(reason, message or f"Pod was rejected: {reason}") if reason else None


def _names(given: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in given.get(name, "").split(","))))


def _number(given: Mapping[str, str], name: str) -> int | None:
    if name not in given:
        return None
    if not given[name].isdecimal():
        raise InvalidAnnotation(name, f"{given[name]!r} is not a whole number")
    return int(given[name])


def _code(given: Mapping[str, str], name: str) -> int | None:
    code = _number(given, name)
    if code is not None and code > 255:
        raise InvalidAnnotation(name, f"{code} is more than a process can end with: 255")
    return code


def _flag(given: Mapping[str, str], name: str) -> bool:
    return _choice(given, name, ("false", "true")) == "true"


def _choice(given: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    value = given.get(name, allowed[0])
    if value not in allowed:
        raise InvalidAnnotation(name, f"{value!r} is not one of {', '.join(allowed)}")
    return value


def _or(value: N | None, default: N) -> N:
    return default if value is None else value
