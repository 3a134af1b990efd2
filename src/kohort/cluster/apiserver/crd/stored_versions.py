"""The version in which the objects of a custom resource are stored."""

from kohort.objects.json_types import JsonObject


def storage_versions(obj: JsonObject) -> list[str]:
    """The version in which objects are stored, if the definition says one."""
    versions = (obj.get("spec") or {}).get("versions") or ()
    return [version.get("name") for version in versions if version.get("storage")][:1]
