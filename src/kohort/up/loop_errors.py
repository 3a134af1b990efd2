"""What the event loop has to say of its own: callbacks that failed, connections that it could not accept.

Nobody waits for these, so they end in the log. Out of open files, asyncio complains a hundred times a second, with a
stack each, for as long as it lasts; so the same complaint is told once a minute.
"""

import asyncio
import errno
import traceback

from kohort.kube.log import Log
from kohort.objects.json_types import JsonObject

QUIET_SECONDS = 60.0

_log = Log(part="up")


class Complaints:
    def __init__(self) -> None:
        self._told: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: JsonObject) -> None:
        problem: BaseException | None = context.get("exception")
        what = f"{context['message']}: {problem!r}"
        now = loop.time()
        if now - self._told.get(what, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        self._told = {each: when for each, when in self._told.items() if now - when < QUIET_SECONDS} | {what: now}
        if isinstance(problem, OSError) and problem.errno in (errno.EMFILE, errno.ENFILE):
            _log.error("no more connections: too many open files; others must close theirs, or raise ulimit -n")
        else:
            stack = "".join(traceback.format_exception(problem)).rstrip() if problem is not None else ""
            _log.error(context["message"], exception=stack)
