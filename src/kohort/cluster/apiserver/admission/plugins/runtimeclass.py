"""RuntimeClass: what a runtime costs and where it runs is written into the pods that use it."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, is_core, refusal, written
from kohort.cluster.apiserver.schema.field_checks import same_amounts
from kohort.objects.json_types import JsonObject

CLASSES: Final = "runtimeclasses.node.k8s.io"
OTHER_OVERHEAD: Final = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
NO_OVERHEAD: Final = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


class RuntimeClass(AdmissionStep):
    name = "RuntimeClass"
    about = ("pods",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == "CREATE" and is_core(attributes, "pods")

    async def mutate(self, attributes: Attributes) -> None:
        spec = written(attributes)["spec"]
        found = self._class(attributes, spec)
        if found is None:
            return
        overhead = _overhead(found)
        if overhead is not None:
            if spec.get("overhead") and not same_amounts(overhead, spec["overhead"]):
                raise refusal(attributes, OTHER_OVERHEAD)
            spec["overhead"] = overhead
        scheduling = found.get("scheduling")
        if scheduling:
            self._place(attributes, spec, scheduling)

    async def validate(self, attributes: Attributes) -> None:
        spec = written(attributes)["spec"]
        found = self._class(attributes, spec)
        overhead = _overhead(found) if found is not None else None
        if overhead is not None:
            if not same_amounts(overhead, spec.get("overhead") or {}):
                raise refusal(attributes, OTHER_OVERHEAD)
        elif spec.get("overhead") is not None:
            raise refusal(attributes, NO_OVERHEAD)

    def _class(self, attributes: Attributes, spec: JsonObject) -> JsonObject | None:
        name = spec.get("runtimeClassName")
        if name is None:
            return None
        found = attributes.reader.get(CLASSES, "", name)
        if found is None:
            raise refusal(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found

    def _place(self, attributes: Attributes, spec: JsonObject, scheduling: JsonObject) -> None:
        selector = dict(spec.get("nodeSelector") or {})
        for key, value in (scheduling.get("nodeSelector") or {}).items():
            if selector.get(key, value) != value:
                raise refusal(
                    attributes,
                    f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                    f"pod.spec.nodeSelector[{key}] = {selector[key]}",
                )
            selector[key] = value
        if selector:
            spec["nodeSelector"] = selector
        tolerations = _merged(spec.get("tolerations") or [], scheduling.get("tolerations") or [])
        if tolerations:
            spec["tolerations"] = tolerations


def _overhead(runtime_class: JsonObject) -> JsonObject | None:
    overhead = runtime_class.get("overhead")
    return None if overhead is None else overhead.get("podFixed") or {}


def _merged(own: list[JsonObject], given: list[JsonObject]) -> list[JsonObject]:
    """Both lists, without what another entry already covers."""
    kept: list[JsonObject] = []
    every = own + given
    for index, toleration in enumerate(every):
        covered = any(_superset(other, toleration) for other in kept)
        later = any(_superset(other, toleration) and other != toleration for other in every[index + 1 :])
        if not covered and not later:
            kept.append(toleration)
    return kept


def _superset(wide: JsonObject, narrow: JsonObject) -> bool:
    """Whether `wide` tolerates everything that `narrow` tolerates, as long as it does."""
    if wide == narrow:
        return True
    exists = wide.get("operator") == "Exists"
    same_key = wide.get("key") == narrow.get("key") or (exists and not wide.get("key"))
    same_effect = not wide.get("effect") or wide["effect"] == narrow.get("effect")
    same_value = exists or (narrow.get("operator") != "Exists" and wide.get("value") == narrow.get("value"))
    return same_key and same_effect and same_value and _lasts_as_long(wide, narrow)


def _lasts_as_long(wide: JsonObject, narrow: JsonObject) -> bool:
    seconds = wide.get("tolerationSeconds")
    if wide.get("effect") != "NoExecute" or seconds is None:
        return True
    wanted = narrow.get("tolerationSeconds")
    return wanted is not None and bool(wanted <= seconds)
