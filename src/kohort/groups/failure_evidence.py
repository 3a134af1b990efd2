"""What is kept about the failures of groups, in the ConfigMap `<set>-failures`.

When a group with a `restartBudget` is about to be deleted, everything that explains its failure goes with its pods. So
before that, for every container that failed: how it ended, the end of its log, and the events of its pod. The newest
failure comes first.

| limit | |
|---|---|
| failures kept | 10 |
| log of a container | the last 200 lines, at most 64 KiB |
| events of a pod | the last 20 |
| the whole document | 900 KiB: logs of the oldest failures are dropped first, then the oldest failures |

Secrets are not kept: values that look like credentials are replaced (`without_secrets`), and so is every value of an
environment variable of the container whose name says that it is one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kohort.objects.container_reasons import OOM_KILLED
from kohort.objects.json_types import JsonObject
from kohort.objects.pods import ContainerStateTerminated, ContainerStatus, Pod
from kohort.objects.recorded_json import read_recorded
from kohort.rules.terminal_text import without_control_sequences

KEY: Final = "failures.json"
"""Of the ConfigMap's data."""
MOST_FAILURES: Final = 10
LOG_LINES: Final = 200
READ_LINES: Final = 2 * LOG_LINES
"""More than are kept: a credential of several lines may begin above those."""
LOG_BYTES: Final = 64 * 1024
MOST_EVENTS: Final = 20
MOST_BYTES: Final = 900 * 1024
_MESSAGE_CHARACTERS: Final = 4096
_REPLACED: Final = "[redacted]"
_DROPPED: Final = "dropped, because all failures together may take 900 KiB"
_SIGNALS_FROM: Final = 128
"""A shell reports the end by signal n as exit code 128 + n, and so do container runtimes."""
_LAST_SIGNAL: Final = 64


class ContainerFailure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    container: str
    exit_code: int
    signal: int = 0
    reason: str = ""
    oom: bool = False
    message: str = ""
    """What the container wrote to its termination log."""
    started_at: str = ""
    finished_at: str = ""
    restarts: int = 0
    log: str = ""
    log_note: str = ""
    """Why the log is missing or shorter."""


class PodFailure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    pod: str
    node: str = ""
    containers: tuple[ContainerFailure, ...] = ()
    events: tuple[str, ...] = ()
    note: str = ""
    """What could not be found out about the pod."""


class GroupFailure(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One failure of a group."""

    group: int
    at: str
    reason: str
    """As in the metric kohort_group_restarts_total."""
    leader: str
    """Uid of the leader: a failure is recorded once."""
    revision: str = ""
    held: bool = False
    """The budget was used up: the group was not recreated."""
    set: str = ""
    """The extra set of a release that the group belonged to; empty for the set itself."""
    pods: tuple[PodFailure, ...] = ()


def failed_containers(pod: Pod, expected_restarts: Mapping[str, int]) -> list[ContainerFailure]:
    """The containers of a pod that have failed, with how they ended last. `expected_restarts` are those that a resize
    caused."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    found = [(status, last_end(status)) for status in statuses]
    return [
        _failure(status, end)
        for status, end in found
        if end is not None and (status.restart_count > expected_restarts.get(status.name, 0) or end.exit_code != 0)
    ]


def last_end(status: ContainerStatus) -> ContainerStateTerminated | None:
    return status.state.terminated or status.last_state.terminated


def log_is_of_previous(status: ContainerStatus) -> bool:
    """Whether the log of its last end is that of the previous container, because another one was started since."""
    return status.state.terminated is None


def _failure(status: ContainerStatus, end: ContainerStateTerminated) -> ContainerFailure:
    by_signal = end.exit_code - _SIGNALS_FROM
    return ContainerFailure(
        container=status.name,
        exit_code=end.exit_code,
        signal=end.signal or (by_signal if 0 < by_signal <= _LAST_SIGNAL else 0),
        reason=end.reason,
        oom=end.reason == OOM_KILLED,
        message=without_secrets(end.message)[:_MESSAGE_CHARACTERS],
        started_at=end.started_at or "",
        finished_at=end.finished_at or "",
        restarts=status.restart_count,
    )


def end_of_log(text: str) -> str:
    """The last lines of a log, within the limits.

    >>> end_of_log("a\\nb\\n")
    'a\\nb\\n'
    """
    lines = text.splitlines(keepends=True)[-LOG_LINES:]
    encoded = "".join(lines).encode(errors="replace")
    if len(encoded) <= LOG_BYTES:
        return "".join(lines)
    return encoded[-LOG_BYTES:].decode(errors="ignore")


# Secrets

_SECRET_NAME: Final = re.compile(
    r"(?i)(pass(word|wd|phrase)?|_pwd|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key|auth)"
)
_WORDS: Final = (
    r"(?:password|passwd|passphrase|(?<=_)pwd|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key)"
)
_VALUE: Final = r"""(?P<value>"[^"\n]{1,4096}"?|'[^'\n]{1,4096}'?|[^\s"',;}]{1,4096})"""
_PATTERNS: Final = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\A(?:[A-Za-z0-9+/=]{1,76}\n)*-----END [A-Z ]*PRIVATE KEY-----"),
    re.compile(r"(?m)^(?:[A-Za-z0-9+/]{64}\n){3,}(?:[A-Za-z0-9+/=]{1,64}$)?"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*"),
    re.compile(r"\b(?:hf|ghp|gho|ghs|github_pat|glpat|sk|xox[abprs])[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{20,}"),
    re.compile(r"(?<=://)[^/\s:@]{1,256}:[^/\s@]{1,256}(?=@)"),
    re.compile(r"(?i)\b(?P<name>(?:set-)?cookie)(?P<between>[\"']?\s{0,4}[=:]\s{0,4})(?P<value>[^\n]{1,4096})"),
    re.compile(
        rf"(?i)(?<![A-Za-z0-9])(?P<name>[A-Za-z0-9_.-]{{0,64}}{_WORDS}[A-Za-z0-9_.-]{{0,64}})"
        rf"(?P<between>[\"']?\s{{0,4}}[=:]\s{{0,4}}){_VALUE}"
    ),
    re.compile(rf"(?i)(?P<name>--?[A-Za-z0-9_.-]{{0,64}}{_WORDS})(?P<between>[ \t]{{1,4}}){_VALUE}"),
    re.compile(
        r"(?i)\b(?P<name>password|passwd|passphrase|secret|token|api[-_ ]?key)"
        r"(?P<between>[ \t]{1,4}(?:is[ \t]{1,4})?[\"']?)(?P<value>(?=[^\s\"']{0,256}\d)[^\s\"']{8,256})"
    ),
)


def without_secrets(text: str, values: Iterable[str] = ()) -> str:
    """The text without what looks like a credential, without `values`, and without anything that only a terminal would
    act on: colours inside of a line would hide credentials from the patterns.

    >>> without_secrets("login with password=hunter2 at https://me:pw@host/")
    'login with password=[redacted] at https://[redacted]@host/'
    """
    text = without_control_sequences(text)
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, _REPLACED)
    for pattern in _PATTERNS:
        text = pattern.sub(_replacement, text)
    return text


def _replacement(found: re.Match[str]) -> str:
    named = found.groupdict()
    if "name" not in named:
        return _REPLACED + "\n" * found[0].endswith("\n")
    quote = named["value"][0] if named["value"][0] in "\"'" else ""
    return f"{named['name']}{named['between']}{quote}{_REPLACED}{quote}"


def secret_values(pod: JsonObject, container: str) -> list[str]:
    """Values in the environment of a container whose variables are named as credentials are."""
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    variables = [one for each in containers if each.get("name") == container for one in each.get("env") or ()]
    found = [one.get("value") or "" for one in variables if _SECRET_NAME.search(one.get("name") or "")]
    return [value for value in found if len(value) >= 4]


# The document


def with_failure(known: Sequence[GroupFailure], failure: GroupFailure) -> list[GroupFailure]:
    """The failures with one more, the newest first. One that is known already stays as it is, unless its group is held
    by now."""
    same = [one for one in known if one.leader == failure.leader]
    if any(one.held or not failure.held for one in same):
        return list(known)
    return [failure, *(one for one in known if one not in same)][:MOST_FAILURES]


def encoded(failures: Sequence[GroupFailure], most_bytes: int = MOST_BYTES) -> str:
    """The document, within its limit."""
    kept = list(failures)
    text = _encode(kept)
    for position in range(len(kept) - 1, -1, -1):
        if len(text) <= most_bytes:
            break
        kept[position] = _without_logs(kept[position])
        text = _encode(kept)
    while len(text) > most_bytes and kept:
        kept.pop()
        text = _encode(kept)
    return text.decode()


def decoded(text: str) -> list[GroupFailure]:
    """The failures in a document; none if it cannot be read."""
    return read_recorded(text, list[GroupFailure]) or []


def _encode(failures: Sequence[GroupFailure]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(failures), indent=1)


def _without_logs(failure: GroupFailure) -> GroupFailure:
    return msgspec.structs.replace(
        failure,
        pods=tuple(
            msgspec.structs.replace(
                pod,
                containers=tuple(
                    msgspec.structs.replace(one, log="", log_note=_DROPPED) if one.log else one
                    for one in pod.containers
                ),
            )
            for pod in failure.pods
        ),
    )
