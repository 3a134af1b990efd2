"""Fields without an owner in managedFields: type and identity of an object, and metadata that the server sets."""

from typing import Final

from kohort.cluster.apiserver.apply.fieldset import SELF, FieldSet, from_paths

NEVER_TRACKED: Final = from_paths(
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    *(
        ("metadata", name)
        for name in (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
)


def ownable(fields: FieldSet) -> FieldSet:
    """A set without NEVER_TRACKED. Every write ends here, and most sets have nothing else in common with that one than
    its two levels: so they are looked at directly."""
    kept: FieldSet = {}
    for element, below in fields.items():
        if element not in NEVER_TRACKED:
            kept[element] = below
        elif element == "f:metadata":
            owned = {inner: deeper for inner, deeper in below.items() if inner not in _IN_METADATA}
            if owned:
                kept[element] = owned
    return kept


_IN_METADATA: Final = frozenset((SELF, *NEVER_TRACKED["f:metadata"]))
