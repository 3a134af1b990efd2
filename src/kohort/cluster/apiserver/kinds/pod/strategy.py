"""How pods behave on writes: the hooks, and the order in which the rules of this package are checked."""

from collections.abc import Mapping
from typing import Final

from kohort.cluster.apiserver.kinds import feature_gates
from kohort.cluster.apiserver.kinds.metadata import put_back, reset_for_status
from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.kinds.pod import pod_level_resources, resize
from kohort.cluster.apiserver.kinds.pod.allowed_changes import MIRROR, check_annotation_changes, check_changes
from kohort.cluster.apiserver.kinds.pod.annotations import (
    check_annotations,
    check_annotations_match_fields,
    copy_app_armor,
)
from kohort.cluster.apiserver.kinds.pod.defaults import default_pod
from kohort.cluster.apiserver.kinds.pod.match_label_keys import merge_label_keys
from kohort.cluster.apiserver.kinds.pod.spec import check_pod_only, check_spec
from kohort.cluster.apiserver.kinds.pod.status import (
    check_status,
    gated_condition,
    mirror_addresses,
    preserve_generations,
)
from kohort.cluster.apiserver.kinds.pod.validation_options import PodRules
from kohort.cluster.apiserver.kinds.pod.warnings import spec_warnings
from kohort.cluster.apiserver.schema.field_checks import WHOLE_OBJECT, Errors, same
from kohort.cluster.apiserver.schema.metadata_rules import object_errors
from kohort.objects.field_errors import FieldError, forbidden
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1123_label
from kohort.objects.pods import FINISHED_PHASES, RESTART_CONTAINER, is_sidecar

_HOSTNAME: Final = (
    "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended"
)


class PodStrategy(Strategy):
    deletion_returns_object = True
    keeps_status_on_create = True  # which `prepare_create` makes anew: of a given one it keeps the class of service

    def default(self, obj: JsonObject) -> None:
        default_pod(obj)
        self.default_status(obj)

    def default_status(self, obj: JsonObject) -> None:
        status = obj.get("status")
        if status:
            mirror_addresses(status)

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        spec = obj["spec"]
        pod_level = feature_gates.enabled(context.gates, feature_gates.POD_LEVEL_RESOURCES)
        if not pod_level and "resources" in spec:
            del spec["resources"]
            context.warnings.append("spec.resources: ignored, the feature gate PodLevelResources is off")
        if pod_level:
            legacy = not feature_gates.enabled(context.gates, feature_gates.FIX_POD_LEVEL_DEFAULTING)
            pod_level_resources.default_levels(spec, legacy=legacy)
        merge_label_keys(obj)
        context.warnings += copy_app_armor(obj["metadata"], spec)
        given = (obj.get("status") or {}).get("qosClass")
        obj["status"] = {
            "phase": "Pending",
            "qosClass": given or pod_level_resources.quality(spec, pod_level=pod_level),
        }
        if spec.get("schedulingGates"):
            obj["status"]["conditions"] = [gated_condition()]
        if pod_level_resources.is_set(spec) and feature_gates.enabled(context.gates, feature_gates.POD_LEVEL_RESIZE):
            obj["status"]["resources"] = pod_level_resources.desired_status(obj)

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        if context.subresource == "resize":
            resize.keep_resize_only(obj, old, context.gates, patch=context.patch)
            if not obj["spec"].get("nodeName") and (obj.get("status") or {}).get("resources") is not None:
                obj["status"] = {**obj["status"], "resources": pod_level_resources.desired_status(obj)}
        elif context.subresource == "ephemeralcontainers":
            _keep_ephemeral_only(obj, old)
        elif not context.patch and obj["spec"].get("resources") is None and old["spec"].get("resources") is not None:
            # a client that does not know the field must not remove it
            obj["spec"]["resources"] = old["spec"]["resources"]
        if (
            not feature_gates.enabled(context.gates, feature_gates.POD_LEVEL_RESOURCES)
            and "resources" not in old["spec"]
        ):
            obj["spec"].pop("resources", None)

    def prepare_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        before = old.get("status") or {}
        status = obj.setdefault("status", {})
        put_back(obj["metadata"], old["metadata"], "ownerReferences")
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        preserve_generations(status, before)
        if not feature_gates.enabled(context.gates, feature_gates.POD_LEVEL_RESIZE):
            for field in ("resources", "allocatedResources"):
                if field not in before:
                    status.pop(field, None)

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        spec, rules = obj["spec"], _rules(obj, context.gates)
        _check_pod(errors, obj, rules)
        check_annotations_match_fields(errors, obj["metadata"], spec)
        if spec.get("ephemeralContainers"):
            errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            errors.append(forbidden("spec.nodeName", detail))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors = object_errors(obj["metadata"], True, self.validate_name)
        rules = _rules(obj, context.gates, old)
        _check_pod(errors, obj, rules)
        if context.subresource == "resize":
            return resize.check_resize(errors, obj, old, context.gates)
        check_annotation_changes(errors, obj["metadata"], old["metadata"])
        check_annotations(errors, "metadata.annotations", obj["metadata"], obj["spec"], rules)
        if context.subresource == "ephemeralcontainers":
            return _check_ephemeral(errors, obj, old)
        check_changes(errors, obj["spec"], old["spec"], rules)
        return errors

    def validate_status_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        check_annotation_changes(errors, obj["metadata"], old["metadata"])
        if obj["metadata"].get("annotations"):
            rules = _rules(obj, context.gates, old)
            check_annotations(errors, "metadata.annotations", obj["metadata"], obj["spec"], rules)
        check_status(errors, obj, old)
        return errors

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is not None:
            return []
        found: list[str] = []
        problems = dns1123_label(obj["metadata"].get("name") or "")
        if problems:
            found.append(f"metadata.name: {_HOSTNAME}: [{' '.join(problems)}]")
        return found + spec_warnings(obj["metadata"], obj["spec"])

    def generation_moves(self, obj: JsonObject, old: JsonObject) -> bool:
        return not same(obj.get("spec"), old.get("spec"))

    def graceful_seconds(self, obj: JsonObject, requested: int | None) -> int:
        spec = obj.get("spec") or {}
        seconds = requested if requested is not None else spec.get("terminationGracePeriodSeconds") or 0
        finished = (obj.get("status") or {}).get("phase") in FINISHED_PHASES
        if not spec.get("nodeName") or finished:
            return 0
        return int(seconds) if seconds >= 0 else 1


def _check_pod(errors: Errors, pod: JsonObject, rules: PodRules) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    check_annotations(errors, "metadata.annotations", meta, spec, rules)
    check_spec(errors, "spec", spec, rules)
    check_pod_only(errors, "spec", spec)


def _rules(pod: JsonObject, enabled: Mapping[str, bool], old: JsonObject | None = None) -> PodRules:
    pod_level = feature_gates.enabled(enabled, feature_gates.POD_LEVEL_RESOURCES)
    rules = PodRules(
        is_pod=True,
        pod_level=pod_level,
        toleration_comparison=feature_gates.enabled(enabled, feature_gates.TOLERATION_COMPARISON),
        metadata=pod["metadata"],
    )
    if old is not None:
        _tolerate(rules, old)
    return rules


def _tolerate(rules: PodRules, old: JsonObject) -> None:
    """What is stored already may stay, even if it could not be stored today."""
    init = (old.get("spec") or {}).get("initContainers") or ()
    rules.tolerate_init_restart_policy = any(
        policy.get("restartPolicy") == RESTART_CONTAINER
        for container in init
        if not is_sidecar(container)
        for policy in container.get("resizePolicy") or ()
    )


def _keep_ephemeral_only(pod: JsonObject, old: JsonObject) -> None:
    spec = dict(old["spec"])
    if pod["spec"].get("ephemeralContainers"):
        spec["ephemeralContainers"] = pod["spec"]["ephemeralContainers"]
    else:
        spec.pop("ephemeralContainers", None)
    pod["spec"] = spec
    reset_for_status(pod["metadata"], old["metadata"])


def _check_ephemeral(errors: Errors, pod: JsonObject, old: JsonObject) -> list[FieldError]:
    """Ephemeral containers are only ever added."""
    if MIRROR in (old["metadata"].get("annotations") or {}):
        return [forbidden(WHOLE_OBJECT, "static pods do not support ephemeral containers")]
    present = {c.get("name"): c for c in pod["spec"].get("ephemeralContainers") or ()}
    path = "spec.ephemeralContainers"
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name") or ""
        if name not in present:
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif not same(present[name], container):
            errors.append(forbidden(path, f'existing ephemeral containers "{name}" may not be changed\n'))
    return errors
