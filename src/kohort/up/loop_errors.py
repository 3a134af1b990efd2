"""Logs errors of the event loop itself: failed callbacks, connections that it could not accept.

No caller waits for these. Without free file descriptors, asyncio reports the same error a hundred times a second, each
with a stack; so equal errors are logged once a minute.
"""

import asyncio
import errno
import traceback

from kohort.kube.log import Log
from kohort.objects.json_types import JsonObject

QUIET_SECONDS = 60.0

_log = Log(part="up")


class LoopErrorLog:
    def __init__(self) -> None:
        self._logged_at: dict[str, float] = {}

    def __call__(self, loop: asyncio.AbstractEventLoop, context: JsonObject) -> None:
        problem: BaseException | None = context.get("exception")
        what = f"{context['message']}: {problem!r}"
        now = loop.time()
        if now - self._logged_at.get(what, -QUIET_SECONDS) < QUIET_SECONDS:
            return
        self._logged_at = {each: when for each, when in self._logged_at.items() if now - when < QUIET_SECONDS} | {
            what: now
        }
        if isinstance(problem, OSError) and problem.errno in (errno.EMFILE, errno.ENFILE):
            _log.error("no more connections: too many open files; others must close theirs, or raise ulimit -n")
        else:
            stack = "".join(traceback.format_exception(problem)).rstrip() if problem is not None else ""
            _log.error(context["message"], exception=stack)
