"""CertificateSigningRequests: the spec never changes, only conditions and certificate."""

import base64
import binascii
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import Errors, repeats, same
from kohort.kube import clock
from kohort.objects.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label, dns1123_subdomain, path_segment

_LEGACY: Final = "kubernetes.io/legacy-unknown"
_DEFAULT_USAGES: Final = ("digital signature", "key encipherment")
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment",
    "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel",
    "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime",
    "server auth", "signing", "timestamping",
)  # fmt: skip
_DECISIONS: Final = ("Approved", "Denied")
_FINAL: Final = (*_DECISIONS, "Failed")
_STATUSES: Final = ("False", "True", "Unknown")
_BOUNDARY: Final = re.compile(rb"-----(BEGIN|END) ([^-\n]*)-----")
_HEADERS: Final = re.compile(rb"\s*(?:[^\n:]+:[^\n]*\n)+")


class SigningRequestStrategy(Strategy):
    has_generation = False
    rechecks_metadata = 1

    def validate_name(self, name: str, *, prefix: bool = False) -> list[str]:
        return path_segment(name, prefix=prefix)

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("usages") is None and spec.get("signerName") == _LEGACY:
            spec["usages"] = list(_DEFAULT_USAGES)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        """Who asks is not for the asker to say."""
        spec, user = obj["spec"], context.user
        for field in ("username", "uid", "groups", "extra"):
            spec.pop(field, None)
        spec |= user.document()
        obj["status"] = {}

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        """Besides metadata only the conditions can change, and those only through the subresource `approval`."""
        conditions = (obj.get("status") or {}).get("conditions") or []
        obj["spec"] = old["spec"]
        obj["status"] = dict(old.get("status") or {})
        if context.subresource == "approval":
            _stamp(conditions, old)
            obj["status"]["conditions"] = conditions

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        conditions = obj.setdefault("status", {}).get("conditions") or []
        for kind in _DECISIONS:
            new, before = ([c for c in of if c.get("type") == kind] for of in (conditions, _conditions(old)))
            if len(new) == len(before):
                for condition, was in zip(new, before, strict=True):
                    condition.clear()
                    condition.update(was)
        _stamp(conditions, old)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        return self._errors(obj, None)

    def _errors(self, obj: JsonObject, old: JsonObject | None) -> Errors:
        errors: Errors = []
        spec = obj["spec"]
        problem = _request_problem(spec.get("request") or "")
        if problem:
            errors.append(invalid("spec.request", spec.get("request"), problem))
        _check_usages(errors, spec.get("usages") or [], (old or {}).get("spec", {}).get("usages") or [])
        signer = spec.get("signerName") or ""
        if signer == _LEGACY and (old or {}).get("spec", {}).get("signerName") != _LEGACY:
            detail = "the legacy signerName is not allowed via this API version"
            errors.append(invalid("spec.signerName", signer, detail))
        else:
            _check_signer(errors, "spec.signerName", signer)
        seconds = spec.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            detail = "may not specify a duration less than 600 seconds (10 minutes)"
            errors.append(invalid("spec.expirationSeconds", seconds, detail))
        _check_conditions(errors, _conditions(obj), _conditions(old or {}))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        return self._errors(obj, old) + _changes(obj, old, approval=context.subresource == "approval")

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = self._errors(obj, old)
        new, before = ((side.get("status") or {}).get("certificate") or "" for side in (obj, old))
        if new != before:
            problem = _certificate_problem(new)
            if problem:
                errors.append(invalid("status.certificate", "<certificate data>", problem))
        errors += _changes(obj, old, approval=False)
        if new != before and before:
            errors.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
        return errors


def _conditions(request: JsonObject) -> list[JsonObject]:
    return (request.get("status") or {}).get("conditions") or []


def _stamp(conditions: list[JsonObject], old: JsonObject) -> None:
    now = clock.timestamp()
    known = {(c.get("type"), c.get("status")): c.get("lastTransitionTime") for c in reversed(_conditions(old))}
    for condition in conditions:
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            condition["lastTransitionTime"] = known.get((condition.get("type"), condition.get("status"))) or now


class _PemBlock(msgspec.Struct, frozen=True):
    kind: str
    has_headers: bool
    content: bytes


def _blocks(text: str) -> list[_PemBlock]:
    """The PEM blocks in base64 text: a begin and the end of the same kind, with no other boundary between them. The
    cost is linear in the text, also when ends are missing."""
    try:
        data = base64.b64decode(text)
        boundaries = list(_BOUNDARY.finditer(data))
        return [
            _block(begin[2].decode(), data[begin.end() : end.start()])
            for begin, end in pairwise(boundaries)
            if (begin[1], end[1]) == (b"BEGIN", b"END") and begin[2] == end[2]
        ]
    except (binascii.Error, ValueError):
        return []


def _block(kind: str, body: bytes) -> _PemBlock:
    headers = _HEADERS.match(body)
    content = body[headers.end() :] if headers is not None else body
    return _PemBlock(kind, headers is not None, base64.b64decode(content))


def _request_problem(text: str) -> str:
    blocks = _blocks(text)
    if not blocks or blocks[0].kind != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    from cryptography import x509

    try:
        request = x509.load_der_x509_csr(blocks[0].content)
        return "" if request.is_signature_valid else "x509: signature is not valid"
    except ValueError:
        return "asn1: structure error"


def _certificate_problem(text: str) -> str:
    if not text:
        return ""
    from cryptography import x509

    blocks = _blocks(text)
    if not blocks:
        return "must contain at least one CERTIFICATE PEM block"
    for block in blocks:
        if block.kind != "CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.kind}"'
        if block.has_headers:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(block.content)
        except ValueError:
            return "x509: malformed certificate"
    return ""


def _check_usages(errors: Errors, usages: list[str], before: list[str]) -> None:
    if not usages:
        errors.append(required("spec.usages"))
    if all(usage in _USAGES for usage in before):
        errors += [
            not_supported(f"spec.usages[{index}]", usage, _USAGES)
            for index, usage in enumerate(usages)
            if usage not in _USAGES
        ]
    if len(set(before)) == len(before):
        errors += [
            duplicate(f"spec.usages[{index}]", usages[index]) for index, again in enumerate(repeats(usages)) if again
        ]


def _check_signer(errors: Errors, path: str, signer: str) -> None:
    if not signer:
        errors.append(required(path))
        return
    segments = signer.split("/")
    if len(segments) != 2:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        errors.append(invalid(path, signer, detail))
        return
    domain, name = segments
    if len(domain) > 253:
        errors.append(too_long(path, 253))
    labels = domain.split(".")
    _check_labels(errors, path, domain, labels, dns1123_label)
    if len(labels) < 2:
        errors.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    _check_labels(errors, path, name, name.split("."), dns1123_subdomain)
    if len(signer) > 571:
        errors.append(too_long(path, 571))


def _check_labels(errors: Errors, path: str, whole: str, labels: list[str], rule: Callable[..., list[str]]) -> None:
    for label in labels:
        problems = rule(label)
        if problems:
            errors += [invalid(path, whole, f'validating label "{label}": {problem}') for problem in problems]
            return


def _check_conditions(errors: Errors, conditions: list[JsonObject], before: list[JsonObject]) -> None:
    path = "status.conditions"
    kinds_before = [condition.get("type") or "" for condition in before]
    both = set(_DECISIONS) <= set(kinds_before)
    distinct_before = len(set(kinds_before)) == len(kinds_before)
    nameless_before = "" in kinds_before
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        kind, status = condition.get("type") or "", condition.get("status") or ""
        here = f"{path}[{index}]"
        if not kind and not nameless_before:
            errors.append(required(f"{here}.type"))
        allowed = ("True",) if kind in _FINAL else _STATUSES
        if not status:
            errors.append(required(f"{here}.status"))
        elif status not in allowed:
            errors.append(not_supported(f"{here}.status", status, allowed))
        if kind in _DECISIONS and not both and any(other in seen for other in _DECISIONS if other != kind):
            errors.append(invalid(path, kind, "Approved and Denied conditions are mutually exclusive"))
        if kind in seen and distinct_before:
            errors.append(duplicate(f"{here}.type", kind))
        seen.add(kind)


def _changes(obj: JsonObject, old: JsonObject, *, approval: bool) -> Errors:
    """Decisions are final, and only the subresource `approval` makes them."""
    errors: Errors = []
    path = "status.conditions"
    for kind in _FINAL:
        new, before = ([c for c in _conditions(side) if c.get("type") == kind] for side in (obj, old))
        if len(new) < len(before):
            errors.append(forbidden(path, f'updates may not remove a condition of type "{kind}"'))
    for kind in () if approval else _DECISIONS:
        new, before = ([c for c in _conditions(side) if c.get("type") == kind] for side in (obj, old))
        if len(new) > len(before):
            errors.append(forbidden(path, f'updates may not add a condition of type "{kind}"'))
        elif len(new) == len(before) and not same(new, before):
            errors.append(forbidden(path, f'updates may not modify a condition of type "{kind}"'))
    return errors
