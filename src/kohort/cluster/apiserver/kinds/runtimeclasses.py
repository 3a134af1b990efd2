"""RuntimeClasses: a handler, and what its pods cost on top and where they may run."""

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod.defaults import round_up
from kohort.cluster.apiserver.kinds.pod.resources import PLAIN, check_block
from kohort.cluster.apiserver.kinds.pod.scheduling import check_tolerations
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.warnings import DEPRECATED_LABELS
from kohort.cluster.apiserver.kinds.resource_names import check_container
from kohort.cluster.apiserver.schema.field_checks import Errors, immutable, labels, named, repeats
from kohort.objects.field_errors import FieldError, duplicate, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label


class RuntimeClassStrategy(Strategy):
    names_finalizers_freely = True
    rechecks_metadata = 1
    create_on_update = True
    unconditional_update = False
    has_status = False
    has_generation = False

    def default(self, obj: JsonObject) -> None:
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            round_up(fixed)

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        labels = (obj.get("scheduling") or {}).get("nodeSelector") or {}
        return [f"scheduling.nodeSelector: {DEPRECATED_LABELS[key]}" for key in labels if key in DEPRECATED_LABELS]

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        handler = obj.get("handler")
        if not handler:
            errors.append(required("handler"))
        else:
            named(errors, "handler", handler, dns1123_label)
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            check_block(errors, "overhead", {}, fixed, check_container, PLAIN, PodRules())
        scheduling = obj.get("scheduling") or {}
        labels(errors, "scheduling.nodeSelector", scheduling.get("nodeSelector"))
        tolerations: list[JsonObject] = scheduling.get("tolerations") or []
        check_tolerations(errors, "scheduling.tolerations", tolerations, PodRules())
        errors += [
            duplicate(f"scheduling.tolerations[{index}]", tolerations[index])
            for index, again in enumerate(repeats(tolerations))
            if again
        ]
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "handler", obj.get("handler"), old.get("handler"))
        return errors + self.validate(context, obj)
