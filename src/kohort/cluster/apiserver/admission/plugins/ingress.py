"""DefaultIngressClass: an Ingress that names no class gets the default one."""

from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, written
from kohort.cluster.apiserver.admission.plugins.storage import newest
from kohort.objects import well_known_names

CLASSES: Final = "ingressclasses.networking.k8s.io"
DEFAULT_CLASS: Final = well_known_names.DEFAULT_INGRESS_CLASS
ANNOTATION: Final = well_known_names.INGRESS_CLASS


class DefaultIngressClass(AdmissionStep):
    name = "DefaultIngressClass"
    about = ("ingresses",)

    def handles(self, attributes: Attributes) -> bool:
        resource = attributes.resource
        return attributes.operation == "CREATE" and resource.kind == "Ingress" and not attributes.subresource

    async def mutate(self, attributes: Attributes) -> None:
        ingress = written(attributes)
        spec = ingress.setdefault("spec", {})
        if spec.get("ingressClassName") is not None:
            return
        if ANNOTATION in (ingress["metadata"].get("annotations") or {}):
            return
        found = newest(
            one
            for one in attributes.reader.list(CLASSES)
            if (one["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
        )
        if found is not None:
            spec["ingressClassName"] = found["metadata"]["name"]
