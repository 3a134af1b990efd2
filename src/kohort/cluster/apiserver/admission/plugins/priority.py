"""Priority: the number and the preemption policy of a pod come from its class, never from the pod."""

from collections.abc import Iterable
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import WRITES, AdmissionStep, is_core, refusal, written
from kohort.objects.json_types import JsonObject

CLASSES: Final = "priorityclasses.scheduling.k8s.io"
PREEMPT: Final = "PreemptLowerPriority"


class Priority(AdmissionStep):
    name = "Priority"
    about = ("pods", "priorityclasses")

    def handles(self, attributes: Attributes) -> bool:
        if attributes.operation not in WRITES or attributes.subresource:
            return False
        return is_core(attributes, "pods") or attributes.resource.kind == "PriorityClass"

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.resource.plural != "pods":
            return
        spec = written(attributes)["spec"]
        if attributes.operation == "UPDATE":
            before = (attributes.old_object or {}).get("spec") or {}
            for field in ("priority", "preemptionPolicy"):
                if spec.get(field) is None and before.get(field) is not None:
                    spec[field] = before[field]
            return
        self._resolve(attributes, spec)

    def _resolve(self, attributes: Attributes, spec: JsonObject) -> None:
        name = spec.get("priorityClassName")
        if name:
            found = attributes.reader.get(CLASSES, "", name)
            if found is None:
                raise refusal(attributes, f"no PriorityClass with name {name} was found")
        else:
            found = default_class(attributes.reader.list(CLASSES))
            if found is not None:
                spec["priorityClassName"] = found["metadata"]["name"]
        value, policy = 0, PREEMPT
        if found is not None:
            value, policy = found.get("value") or 0, found.get("preemptionPolicy") or PREEMPT
        given = spec.get("priority")
        if given is not None and given != value:
            raise refusal(
                attributes,
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given PriorityClass name",
            )
        spec["priority"] = value
        wanted = spec.get("preemptionPolicy")
        if wanted is not None and wanted != policy:
            raise refusal(
                attributes,
                f"the string value of PreemptionPolicy ({wanted}) must not be provided in pod spec; "
                f"priority admission controller computed {policy} from the given PriorityClass name",
            )
        spec["preemptionPolicy"] = policy

    async def validate(self, attributes: Attributes) -> None:
        """There is one default class at most."""
        if attributes.resource.kind != "PriorityClass" or not written(attributes).get("globalDefault"):
            return
        present = default_class(attributes.reader.list(CLASSES))
        if present is None:
            return
        name = present["metadata"]["name"]
        if attributes.operation == "CREATE" or name != written(attributes)["metadata"].get("name"):
            detail = f"PriorityClass {name} is already marked as default. Only one default can exist"
            raise refusal(attributes, detail)


def default_class(classes: Iterable[JsonObject]) -> JsonObject | None:
    """The class of pods that name none; the lowest, should a race have left several."""
    return min(
        (one for one in classes if one.get("globalDefault")), key=lambda one: int(one.get("value") or 0), default=None
    )
