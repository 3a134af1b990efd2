"""Labels and annotations of a release, kept on a workload that users update from their own manifests."""

from collections.abc import Iterable

from kohort.objects.json_types import JsonObject


def keep_marks(metadata: JsonObject, before: JsonObject, labels: Iterable[str], annotations: Iterable[str]) -> None:
    """Put back into `metadata` what it leaves out of these, as it was before."""
    for part, names in (("labels", labels), ("annotations", annotations)):
        known, given = before.get(part) or {}, metadata.get(part) or {}
        missing = {name: known[name] for name in names if name in known and name not in given}
        if missing:
            metadata[part] = {**given, **missing}
