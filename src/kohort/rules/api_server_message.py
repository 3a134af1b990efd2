"""Why kube-apiserver refuses a request, where its answer says so in its message only.

A `Status` has a code, a reason and sometimes fields. Several refusals of Kubernetes share the reason `Forbidden` and
differ in their words alone, and events carry nothing else. The words are those of Kubernetes; the embedded API
server has the same. No other module looks into messages of an API server.
"""

import re
from enum import Enum
from typing import Final


class RequestRefusal(Enum):
    RIGHT_MISSING = re.compile(r'User "[^"]*" cannot \S+ (?:resource|path) ')
    QUOTA_EXCEEDED = re.compile(r"exceeded quota: |failed quota: ")
    OUTSIDE_LIMIT_RANGE = re.compile(
        r"(?:maximum|minimum) \S+ usage per (?:Container|Pod) is |max limit to request ratio per (?:Container|Pod) is "
    )
    REQUEST_ABOVE_LIMIT = re.compile(r"must be less than or equal to \S+ limit of ")
    POD_LEVEL_NOT_SUPPORTED = re.compile(r"resize of pods with pod-level resources is forbidden ")
    NODE_FEATURE_MISSING = re.compile(r"pod update requires features .+ which are not available on node ")
    NODE_TOO_SMALL = re.compile(r"node didn't have enough allocatable resources: ")
    KIND_NOT_SERVED = re.compile(r"^(?:the server could not find the requested resource|404 page not found)$")


_WHOLE_PATCH: Final = re.compile(r'^Invalid value: "(?:[^"\\]|\\.)*": (?:strict decoding error: )?', re.DOTALL)


def request_refusal(message: str) -> RequestRefusal | None:
    """None for all other refusals."""
    return next((refusal for refusal in RequestRefusal if refusal.value.search(message.strip())), None)


def is_denied_by_webhook(message: str) -> bool:
    """Whether a webhook refused the request, with whatever code it chose.

    >>> is_denied_by_webhook('admission webhook "v.example.com" denied the request: not now')
    True
    """
    return re.match(r'admission webhook "[^"]*" denied the request', message) is not None


def without_patch(message: str) -> str:
    r"""An error about a patch as a whole repeats all of it; this is the rest.

    >>> without_patch(r'Invalid value: "{\"spec\":{\"sise\":1}}": strict decoding error: unknown field "spec.sise"')
    'unknown field "spec.sise"'
    """
    return _WHOLE_PATCH.sub("", message)


def without_field(message: str, field: str) -> str:
    """An error of a custom resource's schema repeats the field that the cause names already.

    >>> without_field("spec.size in body should be at least 1", "spec.size")
    'should be at least 1'
    """
    return message.replace(f"{field} in body ", "")
