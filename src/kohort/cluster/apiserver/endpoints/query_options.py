"""Query parameters of requests, read and checked.

Every operation has its own set; unknown parameters are ignored, wrong values are answered with the 422 that names the
options kind (`ListOptions.meta.k8s.io`). Numbers and booleans follow the rules of Go's query decoding: `false` and `0`
are false, every other present value is true.
"""

import re
from typing import Final

import msgspec

from kohort.kube import errors
from kohort.kube.http import Request
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.objects.selectors import FieldSelector, LabelSelector

META_GROUP: Final = "meta.k8s.io"
MANAGER_LIMIT: Final = 128


class ListOptions(msgspec.Struct):
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_: str = ""
    resource_version: str = ""
    match: str = ""
    timeout_seconds: int | None = None
    watch: bool = False
    bookmarks: bool = False
    initial_events: bool | None = None
    include_object: str = ""


class WriteOptions(msgspec.Struct):
    """Options of create, update and patch."""

    manager: str = ""
    dry_run: bool = False
    field_validation: str = ""
    force: bool | None = None

    def as_object(self, kind: str) -> JsonObject:
        """The options as admission sees them: those of a create or an update, which cannot be forced."""
        document: JsonObject = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            document["dryRun"] = ["All"]
        if self.manager:
            document["fieldManager"] = self.manager
        if self.field_validation:
            document["fieldValidation"] = self.field_validation
        return document


class DeleteOptions(msgspec.Struct):
    grace_seconds: int | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False
    document: JsonObject = {}


def boolean(request: Request, name: str) -> bool | None:
    for key, value in request.query:
        if key == name:
            return value.lower() not in ("false", "0")
    return None


def integer(request: Request, name: str) -> int | None:
    given = request.params(name)
    if not given:
        return None
    text = given[0]
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    value = int(text)
    if not -(2**63) <= value < 2**63:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return value


def list_options(request: Request, *, force_watch: bool = False) -> ListOptions:
    options = ListOptions(
        label_selector=request.param("labelSelector"),
        field_selector=request.param("fieldSelector"),
        limit=integer(request, "limit") or 0,
        continue_=request.param("continue"),
        resource_version=request.param("resourceVersion"),
        match=request.param("resourceVersionMatch"),
        timeout_seconds=integer(request, "timeoutSeconds"),
        watch=force_watch or bool(boolean(request, "watch")),
        bookmarks=bool(boolean(request, "allowWatchBookmarks")),
        initial_events=boolean(request, "sendInitialEvents"),
        include_object=request.param("includeObject"),
    )
    # A watch from no version, or from any, begins with what there is: as if that had been asked for.
    if options.watch and options.initial_events is None and not options.match and options.resource_version in ("", "0"):
        options.initial_events, options.match = True, "NotOlderThan"
    found = _watch_errors(options) if options.watch else _list_errors(options)
    if found:
        _check_syntax(options)
        raise errors.invalid("ListOptions", "", found, META_GROUP)
    return options


def _check_syntax(options: ListOptions) -> None:
    """Selectors that cannot be parsed are reported before options that exclude each other."""
    try:
        LabelSelector.parse(options.label_selector)
        FieldSelector.parse(options.field_selector)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None


def _list_errors(options: ListOptions) -> list[FieldError]:
    found: list[FieldError] = []
    where = "resourceVersionMatch"
    if options.match:
        if not options.resource_version:
            detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            found.append(field_errors.forbidden(where, detail))
        if options.continue_:
            found.append(field_errors.forbidden(where, "resourceVersionMatch is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            found.append(field_errors.not_supported(where, options.match, ("Exact", "NotOlderThan", "")))
        if options.match == "Exact" and options.resource_version == "0":
            detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            found.append(field_errors.forbidden(where, detail))
    if options.initial_events is not None:
        found.append(field_errors.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return found


def _watch_errors(options: ListOptions) -> list[FieldError]:
    found: list[FieldError] = []
    where = "resourceVersionMatch"
    if options.initial_events is not None and options.match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.append(field_errors.forbidden(where, detail))
    if options.match:
        if options.initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            found.append(field_errors.forbidden(where, detail))
        if options.match != "NotOlderThan":
            found.append(field_errors.not_supported(where, options.match, ("NotOlderThan",)))
        if options.continue_:
            found.append(field_errors.forbidden(where, "resourceVersionMatch is forbidden when continue is provided"))
    return found


def revision_of(text: str, *, of_list: bool = False) -> int:
    """A resourceVersion parameter as a number; 0 when absent.

    The wording is the storage layer's own and, like upstream, without a reason; only lists wrap it.
    """
    if not text:
        return 0
    problem = ""
    if not re.fullmatch(r"[0-9]+", text):
        problem = "invalid syntax"
    elif int(text) >= 2**64:
        problem = "value out of range"
    if not problem:
        return int(text)
    detail = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": {problem}'
    if of_list:
        raise errors.bad_request(f"invalid resource version: {detail}")
    raise errors.failure(500, "", detail)


def write_options(request: Request, kind: str, *, apply: bool = False) -> WriteOptions:
    """`kind` is the options kind that an error names: CreateOptions, UpdateOptions or PatchOptions."""
    dry_run = request.params("dryRun")
    options = WriteOptions(
        manager=request.param("fieldManager"),
        dry_run=bool(dry_run),
        field_validation=request.param("fieldValidation"),
        force=boolean(request, "force") if kind == "PatchOptions" else None,
    )
    found: list[FieldError] = []
    if kind == "PatchOptions":
        if apply and not options.manager:
            found.append(field_errors.required("fieldManager", "is required for apply patch"))
        if not apply and options.force is not None:
            found.append(field_errors.forbidden("force", "may not be specified for non-apply patch"))
    found += manager_errors(options.manager)
    found += _dry_run_errors(dry_run)
    if options.field_validation not in ("", "Ignore", "Warn", "Strict"):
        allowed = ("", "Ignore", "Strict", "Warn")
        found.append(field_errors.not_supported("fieldValidation", options.field_validation, allowed))
    if found:
        raise errors.invalid(kind, "", found, META_GROUP)
    return options


def manager_errors(manager: str) -> list[FieldError]:
    if len(manager) <= MANAGER_LIMIT and manager.isascii() and manager.isprintable():
        return []
    found: list[FieldError] = []
    if len(manager.encode()) > MANAGER_LIMIT:
        found.append(field_errors.too_long("fieldManager", MANAGER_LIMIT))
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            found.append(field_errors.invalid("fieldManager", manager, detail))
        position += len(character.encode())
    return found


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    if all(value == "All" for value in values):
        return []
    return [field_errors.not_supported("dryRun", values, ("All",))]


def manager_of(options: WriteOptions, request: Request) -> str:
    """The field manager, or the program name of the User-Agent in its place."""
    if options.manager:
        return options.manager
    agent = request.headers.get("user-agent", "").partition("/")[0]
    if 0 < len(agent) <= MANAGER_LIMIT and agent.isascii() and agent.isprintable():
        return agent
    kept = ""
    for character in agent:
        if not character.isprintable():
            continue
        if len((kept + character).encode()) > MANAGER_LIMIT:
            break
        kept += character
    return kept or "unknown"


def delete_options(document: JsonObject) -> DeleteOptions:
    """A DeleteOptions object, checked. Its values have been checked for type before."""
    preconditions = document.get("preconditions") or {}
    options = DeleteOptions(
        grace_seconds=document.get("gracePeriodSeconds"),
        propagation=document.get("propagationPolicy"),
        orphan_dependents=document.get("orphanDependents"),
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        dry_run=bool(document.get("dryRun")),
        document={**document, "kind": "DeleteOptions", "apiVersion": document.get("apiVersion") or "meta.k8s.io/v1"},
    )
    found: list[FieldError] = []
    where = "propagationPolicy"
    if options.propagation is not None and options.orphan_dependents is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        found.append(field_errors.invalid(where, options.propagation, detail))
    if options.propagation not in (None, "Foreground", "Background", "Orphan"):
        allowed = ("Foreground", "Background", "Orphan", "nil")
        found.append(field_errors.not_supported(where, options.propagation, allowed))
    found += _dry_run_errors(document.get("dryRun") or [])
    if found:
        raise errors.invalid("DeleteOptions", "", found, META_GROUP)
    return options


def delete_options_from_query(request: Request) -> JsonObject:
    document: JsonObject = {}
    grace = integer(request, "gracePeriodSeconds")
    if grace is not None:
        document["gracePeriodSeconds"] = grace
    if request.param("propagationPolicy"):
        document["propagationPolicy"] = request.param("propagationPolicy")
    orphan = boolean(request, "orphanDependents")
    if orphan is not None:
        document["orphanDependents"] = orphan
    if request.params("dryRun"):
        document["dryRun"] = request.params("dryRun")
    preconditions = {name: given[0] for name in ("uid", "resourceVersion") if (given := request.params(name))}
    if preconditions:
        document["preconditions"] = preconditions
    return document


_DURATION: Final = re.compile(r"[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")


def check_timeout(request: Request) -> None:
    """Every request but a watch may say how long it is waited for. Nothing here takes that long, but it must be said
    in a way that can be understood."""
    text = request.param("timeout")
    if not text or boolean(request, "watch") or _DURATION.fullmatch(text):
        return
    unit = re.fullmatch(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", text)
    problem = "missing unit in" if unit else "invalid"
    raise errors.bad_request(f'invalid timeout specified in the request URL - time: {problem} duration "{text}"')
