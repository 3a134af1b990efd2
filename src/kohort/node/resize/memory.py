"""Whether memory limits may go down now.

The kernel kills at once what is above a new `memory.max`, so every limit that is lowered, or set for the first time, is
compared with what is in use at that moment; nothing is written unless all of them fit. Containers that are restarted
anyway are not asked, and what they hold does not count for the pod: it goes with them, before anything is written.

| limit       | in use  | result  |
|-------------|---------|---------|
| none to 100 | 10      | fine    |
| none to 100 | 200     | refused |
| 200 to 100  | unknown | refused |
| 100 to 200  | -       | fine    |
"""

import math

from kohort.node.resize.plan import Change
from kohort.node.views import Target, Usage
from kohort.resources import CgroupValues


class LimitBelowUsage(Exception):
    """A memory limit cannot be lowered to what is in use."""


def check_memory(target: Target, held: CgroupValues, changed: list[Change], usage: Usage) -> None:
    """Raises LimitBelowUsage. `held` is what the pod's cgroup holds."""
    problems = []
    if _lowered(held.memory_max, target.pod.memory_limit):
        problems.append(_problem("pod", target.pod.memory_limit, _staying(changed, usage)))
    problems += [
        _problem(_named(each), each.after.memory_limit, usage.containers.get(each.container.name))
        for each in changed
        if not each.restart and _lowered(each.before.memory_limit, each.after.memory_limit)
    ]
    found = [problem for problem in problems if problem]
    if found:
        raise LimitBelowUsage("; ".join(found))


def _staying(changed: list[Change], usage: Usage) -> int | None:
    """What the pod has in use, but for containers that are about to end."""
    going = sum(usage.containers.get(each.container.name, 0) for each in changed if each.restart)
    return None if usage.pod is None else max(usage.pod - going, 0)


def _lowered(before: int | None, after: int | None) -> bool:
    return after is not None and after < (math.inf if before is None else before)


def _problem(what: str, limit: int | None, usage: int | None) -> str:
    assert limit is not None
    if usage is None:
        return f"attempting to set {what} memory limit ({limit}) while its usage is unknown"
    if usage >= limit:
        return f"attempting to set {what} memory limit ({limit}) below current usage ({usage})"
    return ""


def _named(change: Change) -> str:
    return f'container "{change.container.name}"'
