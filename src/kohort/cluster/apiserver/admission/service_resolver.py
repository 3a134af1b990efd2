"""An address that answers for a Service: the first ready endpoint behind it.

Webhooks are reached this way and not through the cluster IP, because the API server may well start before whatever
makes cluster IPs work.
"""

from kohort.cluster.apiserver.admission.webhook_client import ResolveService
from kohort.cluster.apiserver.storage.reader import Reader
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject


def endpoint_resolver(reader: Reader) -> ResolveService:
    def resolve(namespace: str, name: str, port: int) -> tuple[str, int]:
        service = reader.get("services", namespace, name)
        if service is None:
            raise LookupError(f'service "{name}" not found')
        spec = service.get("spec") or {}
        entry = next((one for one in spec.get("ports") or () if one.get("port") == port), None)
        if spec.get("type") == "ExternalName":
            return str(spec.get("externalName")), port
        if entry is None:
            raise LookupError(f'no service port {port} found for service "{name}"')
        slices = [one for one in reader.list("endpointslices.discovery.k8s.io", namespace) if _belongs(one, name)]
        for found in sorted(slices, key=lambda one: one["metadata"]["name"]):
            address = _ready_address(found)
            target = _port_number(found, entry)
            if address and target:
                return address, target
        raise LookupError(f'no endpoints available for service "{name}"')

    return resolve


def _belongs(endpoint_slice: JsonObject, service: str) -> bool:
    labels = endpoint_slice["metadata"].get("labels") or {}
    return bool(labels.get(well_known_names.SERVICE_NAME) == service)


def _ready_address(endpoint_slice: JsonObject) -> str:
    for endpoint in endpoint_slice.get("endpoints") or ():
        conditions = endpoint.get("conditions") or {}
        if conditions.get("ready") is not False and endpoint.get("addresses"):
            return str(endpoint["addresses"][0])
    return ""


def _port_number(endpoint_slice: JsonObject, service_port: JsonObject) -> int:
    ports: Json = endpoint_slice.get("ports") or ()
    wanted = service_port.get("name") or ""
    for port in ports:
        if (port.get("name") or "") == wanted and port.get("port"):
            return int(port["port"])
    return 0
