"""What the built-in admission steps have in common."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.kube import errors
from kohort.kube.errors import ApiError, StatusCause
from kohort.objects.json_types import JsonObject

WRITES: Final = ("CREATE", "UPDATE")


class AdmissionStep:
    """A step that does nothing in either phase; subclasses say what they handle and override one or both."""

    name = ""
    about: tuple[str, ...] = ()
    """The resources, `pods` or `pods/resize`, that it may ever handle, for a quick choice; none for all there are."""

    def handles(self, attributes: Attributes) -> bool:
        raise NotImplementedError

    async def mutate(self, attributes: Attributes) -> None:
        return None

    async def validate(self, attributes: Attributes) -> None:
        return None


def is_core(attributes: Attributes, plural: str, subresource: str = "") -> bool:
    """Whether a request is about a kind of the core group, and not about one of its subresources."""
    resource = attributes.resource
    return resource.plural == plural and not resource.group and attributes.subresource == subresource


def written(attributes: Attributes) -> JsonObject:
    """The object that a create or update brings."""
    assert attributes.object is not None
    return attributes.object


def refusal(attributes: Attributes, detail: str, causes: tuple[StatusCause, ...] = ()) -> ApiError:
    """403, in the name of the object."""
    resource = attributes.resource
    return errors.forbidden(resource.plural, attributes.shown_name, detail, resource.group, causes)


def aggregated(texts: list[str]) -> str:
    """Several findings in one message."""
    distinct = list(dict.fromkeys(texts))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
