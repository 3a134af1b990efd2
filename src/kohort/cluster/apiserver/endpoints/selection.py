"""Which objects of a bucket a list or watch is about: namespace, labels, fields.

Label and field selectors are parsed once per request and then asked about stored objects, whose labels and selectable
fields were taken out at commit; no object is decoded to be selected.
"""

from typing import Final

from kohort.cluster.apiserver.kinds.model import Kind
from kohort.cluster.apiserver.storage.model import Stored
from kohort.kube import errors
from kohort.objects.selectors import FieldSelector, LabelSelector

MAX_REQUIREMENTS: Final = 1000
BYTES_PER_CHECK: Final = 4
"""Bytes of a document that take as long to read as one requirement takes to check."""
_COMMON = ("metadata.name", "metadata.namespace")


class Selection:
    __slots__ = ("_fields", "_labels", "_meta", "name", "namespace")

    def __init__(self, namespace: str, labels: LabelSelector | None, fields: FieldSelector | None) -> None:
        self.namespace = namespace
        self._labels = labels
        requirements = fields.requirements if fields else ()
        self._meta = tuple(one for one in requirements if one.field in _COMMON)
        others = tuple(one for one in requirements if one.field not in _COMMON)
        self._fields = FieldSelector(others) if others else None
        self.name = next((one.value for one in self._meta if one.field == "metadata.name" and one.equal), None)
        """The only name that can match, when there is only one."""

    @property
    def by_content(self) -> bool:
        """Whether anything beyond the namespace decides."""
        return bool(self._labels or self._meta or self._fields)

    def work(self, objects: int) -> int:
        """The work of selecting from so many objects, as the size of a document that takes as long to read."""
        labels = len(self._labels.requirements) if self._labels else 0
        fields = len(self._fields.requirements) if self._fields else 0
        return objects * (labels + fields + len(self._meta)) * BYTES_PER_CHECK

    def matches(self, stored: Stored) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        return self.matches_content(stored)

    def matches_content(self, stored: Stored) -> bool:
        for one in self._meta:
            value = stored.name if one.field == "metadata.name" else stored.namespace
            if (value == one.value) is not one.equal:
                return False
        if self._labels is not None and not self._labels.matches(stored.labels):
            return False
        return self._fields is None or self._fields.matches(stored.fields)


def select(kind: Kind, namespace: str, label_selector: str, field_selector: str, name: str = "") -> Selection:
    """Parse the selectors of a request; `name` is that of a path that names one object."""
    labels = _labels(label_selector)
    fields = _fields(kind, field_selector)
    if name:
        if fields is None:
            fields = FieldSelector.parse(f"metadata.name={name}")
        elif fields.exact("metadata.name") != name:
            raise errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    return Selection(namespace, labels, fields)


def _labels(text: str) -> LabelSelector | None:
    if not text:
        return None
    try:
        selector = LabelSelector.parse(text)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    _check_number("label", len(selector.requirements))
    return selector if selector.requirements else None


def _check_number(kind: str, requirements: int) -> None:
    """Every requirement is asked about every object of a list and every event of a watch."""
    if requirements > MAX_REQUIREMENTS:
        detail = f"{requirements} requirements, at most {MAX_REQUIREMENTS} are allowed"
        raise errors.bad_request(f"the {kind} selector has {detail}; use `in` with a set of values")


def _fields(kind: Kind, text: str) -> FieldSelector | None:
    if not text:
        return None
    try:
        selector = FieldSelector.parse(text)
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
    _check_number("field", len(selector.requirements))
    known = {*_COMMON, *kind.selectable_names}
    if not kind.resource.namespaced and (kind.custom or kind.selectable_names):
        known.discard("metadata.namespace")
    for one in selector.requirements:
        if one.field not in known:
            raise errors.bad_request(_unknown_field(kind, one.field))
    return selector if selector.requirements else None


def _unknown_field(kind: Kind, field: str) -> str:
    if kind.resource.kind == "Job":
        return f'field label "{field}" not supported for Job'
    if kind.resource.kind == "ResourceSlice":
        return f"field label not supported for {kind.resource.api_version}, Kind=ResourceSlice: {field}"
    if kind.selectable_names or kind.custom:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
