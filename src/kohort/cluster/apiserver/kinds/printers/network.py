"""How services, endpoints, ingresses and network rules are shown in a table."""

from collections.abc import Iterator
from datetime import datetime

from kohort.cluster.apiserver.kinds.printers.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    labels_text,
    name_of,
    selector_text,
    shortened,
    text,
)
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject


def _service(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or (NONE,)
    return [
        name_of(obj),
        spec.get("type", ""),
        addresses[0],
        _external(obj, spec),
        ",".join(map(_port, spec.get("ports") or ())) or NONE,
        age(obj, now),
        labels_text(spec.get("selector")),
    ]


def _external(obj: JsonObject, spec: JsonObject) -> str:
    given: list[str] = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(given) or NONE
        case "LoadBalancer":
            return ",".join([*_load_balancer(obj), *given]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _load_balancer(obj: JsonObject) -> list[str]:
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return sorted({point.get("ip") or point.get("hostname") or "" for point in ingress} - {""})


def _port(port: JsonObject) -> str:
    node_port = f":{port['nodePort']}" if (port.get("nodePort") or 0) > 0 else ""
    return f"{port.get('port', 0)}{node_port}/{port.get('protocol', '')}"


def _endpoints(obj: JsonObject, now: datetime) -> list[Json]:
    shown = shortened(_addresses(obj), empty="") if obj.get("subsets") else NONE
    return [name_of(obj), shown, age(obj, now)]


def _addresses(obj: JsonObject) -> Iterator[str]:
    for subset in obj["subsets"]:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if not ports:
            yield from addresses
        for port in ports:
            yield from (_host_port(address, port.get("port", 0)) for address in addresses)


def _host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoint_slice(obj: JsonObject, now: datetime) -> list[Json]:
    ports = [_slice_port(port) for port in obj.get("ports") or ()]
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    return [
        name_of(obj),
        obj.get("addressType", ""),
        shortened(ports, empty=UNSET),
        shortened(addresses, empty=UNSET),
        age(obj, now),
    ]


def _slice_port(port: JsonObject) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


def _ingress(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    class_name = spec.get("ingressClassName")
    return [
        name_of(obj),
        NONE if class_name is None else class_name,
        _hosts(spec.get("rules") or []),
        ",".join(_load_balancer(obj)),
        "80, 443" if spec.get("tls") else "80",
        age(obj, now),
    ]


def _hosts(rules: list[JsonObject]) -> str:
    """Rules without a host are not listed, but count among those that are left out."""
    shown: list[str] = []
    for rule in rules:
        if len(shown) == 3:
            return f"{','.join(shown)} + {len(rules) - 3} more..."
        if rule.get("host"):
            shown.append(rule["host"])
    return ",".join(shown) or "*"


def _ingress_class(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    annotations = obj["metadata"].get("annotations") or {}
    default = " (default)" if annotations.get(well_known_names.DEFAULT_INGRESS_CLASS) == "true" else ""
    parameters, shown = spec.get("parameters"), NONE
    if parameters is not None:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") is not None else ""
        shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [name_of(obj) + default, spec.get("controller", ""), shown, age(obj, now)]


def _network_policy(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), selector_text((obj.get("spec") or {}).get("podSelector") or {}), age(obj, now)]


def _service_cidr(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), ",".join((obj.get("spec") or {}).get("cidrs") or ()), age(obj, now)]


def _ip_address(obj: JsonObject, now: datetime) -> list[Json]:
    """The row has one cell more than there are columns, as it has in Kubernetes."""
    parent, shown = (obj.get("spec") or {}).get("parentRef"), NONE
    if parent is not None:
        group = f".{parent['group']}" if parent.get("group") else ""
        namespace = f"/{parent['namespace']}" if parent.get("namespace") else ""
        shown = f"{parent.get('resource', '')}{group}".lower() + f"{namespace}/{parent.get('name', '')}"
    return [name_of(obj), shown, age(obj, now)]


NETWORK: dict[str, Printer] = {
    "Service": (
        (
            NAME,
            text("Type", "How the service is reached."),
            text("Cluster-IP", "Address within the cluster."),
            text("External-IP", "Addresses from outside."),
            text("Port(s)", "Ports of the service, with their ports on the nodes."),
            AGE,
            text("Selector", "Labels of the pods behind the service.", wide=True),
        ),
        _service,
    ),
    "Endpoints": ((NAME, text("Endpoints", "Addresses behind the service."), AGE), _endpoints),
    "EndpointSlice": (
        (
            NAME,
            text("AddressType", "What kind of addresses these are."),
            text("Ports", "Ports of every endpoint."),
            text("Endpoints", "Addresses of the endpoints."),
            AGE,
        ),
        _endpoint_slice,
    ),
    "Ingress": (
        (
            NAME,
            text("Class", "Who implements the ingress."),
            text("Hosts", "Hosts for which there are rules."),
            text("Address", "Addresses at which it is reached."),
            text("Ports", "Ports at which it is reached."),
            AGE,
        ),
        _ingress,
    ),
    "IngressClass": (
        (
            NAME,
            text("Controller", "Who implements ingresses of this class."),
            text("Parameters", "Object with further parameters."),
            AGE,
        ),
        _ingress_class,
    ),
    "NetworkPolicy": ((NAME, text("Pod-Selector", "Labels of the pods it is about."), AGE), _network_policy),
    "ServiceCIDR": ((NAME, text("CIDRs", "Ranges from which services get addresses."), AGE), _service_cidr),
    "IPAddress": ((NAME, text("ParentRef", "What has the address.")), _ip_address),
}
