"""How nodes, namespaces, events, configuration and access rules are shown in a table."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from kohort.cluster.apiserver.kinds.printers.cells import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Printer,
    age,
    boolean,
    condition,
    counted,
    human_duration,
    integer,
    name_and_age,
    name_of,
    since,
    text,
)
from kohort.objects.json_types import Json, JsonObject

ROLE_PREFIX: Final = "node-role.kubernetes.io/"
ROLE: Final = "kubernetes.io/role"


def _node(obj: JsonObject, now: datetime) -> list[Json]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    kernel = info.get("kernelVersion") or UNKNOWN
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        name_of(obj),
        _node_status(obj),
        ",".join(_roles(obj["metadata"].get("labels") or {})) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        kernel,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: JsonObject) -> str:
    ready = condition(obj, "Ready")
    shown = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return shown + (",SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else "")


def _roles(labels: Mapping[str, str]) -> list[str]:
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)} | {labels.get(ROLE, "")}
    return sorted(roles - {""})


def _address(status: JsonObject, type_: str) -> str:
    for address in status.get("addresses") or ():
        if address.get("type") == type_:
            return str(address.get("address", ""))
    return NONE


def _namespace(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), (obj.get("status") or {}).get("phase", ""), age(obj, now)]


def _config_map(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def _secret(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def _component_status(obj: JsonObject, now: datetime) -> list[Json]:
    healthy = next((c for c in obj.get("conditions") or () if c.get("type") == "Healthy"), None)
    if healthy is None:
        return [name_of(obj), "Unknown", "", ""]
    status = "Healthy" if healthy.get("status") == "True" else "Unhealthy"
    return [name_of(obj), status, healthy.get("message", ""), healthy.get("error", "")]


def _event(obj: JsonObject, now: datetime) -> list[Json]:
    """Both kinds of event are one; events.k8s.io has other names for the old fields."""
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = obj.get("series")
    if series is not None:
        last, count = series.get("lastObservedTime"), series.get("count", 0)
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    kind = about.get("kind", "").lower()
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    instance = source.get("host") or obj.get("reportingInstance") or ""
    return [
        since(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath", ""),
        f"{component}, {instance}" if instance else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        since(first, now),
        count,
        name_of(obj),
    ]


def _quota(obj: JsonObject, now: datetime) -> list[Json]:
    status = obj.get("status") or {}
    used = status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for resource, hard in sorted((status.get("hard") or {}).items()):
        (limits if resource.startswith("limits.") else requests).append(f"{resource}: {used.get(resource, '0')}/{hard}")
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def _role_binding(obj: JsonObject, now: datetime) -> list[Json]:
    role = obj.get("roleRef") or {}
    subjects: list[JsonObject] = obj.get("subjects") or []
    named = {kind: [s.get("name", "") for s in subjects if s.get("kind") == kind] for kind in ("User", "Group")}
    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in subjects if s.get("kind") == "ServiceAccount"]
    return [
        name_of(obj),
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        ", ".join(named["User"]),
        ", ".join(named["Group"]),
        ", ".join(accounts),
    ]


def _certificate_request(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    duration = spec.get("expirationSeconds")
    return [
        name_of(obj),
        age(obj, now),
        spec.get("signerName") or NONE,
        spec.get("username", ""),
        NONE if duration is None else human_duration(duration),
        _certificate_state(obj),
    ]


def _certificate_state(obj: JsonObject) -> str:
    status = obj.get("status") or {}
    types = {found.get("type") for found in status.get("conditions") or ()}
    state = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    return state + (",Failed" if "Failed" in types else "") + (",Issued" if status.get("certificate") else "")


def _lease(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), (obj.get("spec") or {}).get("holderIdentity") or "", age(obj, now)]


def _priority_class(obj: JsonObject, now: datetime) -> list[Json]:
    return [
        name_of(obj),
        obj.get("value", 0),
        bool(obj.get("globalDefault")),
        age(obj, now),
        obj.get("preemptionPolicy") or "",
    ]


def _runtime_class(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


def _api_service(obj: JsonObject, now: datetime) -> list[Json]:
    service = (obj.get("spec") or {}).get("service")
    available = condition(obj, "Available")
    shown = "Unknown"
    if available is not None:
        shown = available.get("status", "")
        if shown != "True" and available.get("reason"):
            shown = f"{shown} ({available['reason']})"
    where = "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"
    return [name_of(obj), where, shown, age(obj, now)]


# --- admission ---


def _policy(rules: str) -> Printer:
    def cells(obj: JsonObject, now: datetime) -> list[Json]:
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        shown = UNSET if kind is None else f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}"
        return [name_of(obj), len(spec.get(rules) or ()), shown, age(obj, now)]

    return (
        (
            NAME,
            integer(rules.capitalize(), "How many rules the policy has."),
            text("ParamKind", "Kind of the objects that parametrise the policy."),
            AGE,
        ),
        cells,
    )


def _policy_binding(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    return [name_of(obj), spec.get("policyName", ""), _parameter(spec.get("paramRef")), age(obj, now)]


def _parameter(reference: JsonObject | None) -> str:
    if reference is None:
        return UNSET
    if reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{reference['name']}"
    return UNSET if reference.get("selector") is None else _go_selector(reference["selector"])


def _go_selector(selector: JsonObject) -> str:
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{e.get('key', '')},Operator:{e.get('operator', '')},"
        f"Values:[{' '.join(e.get('values') or ())}],}},"
        for e in selector.get("matchExpressions") or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


# --- flow control ---


def _flow_schema(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    method = spec.get("distinguisherMethod")
    dangling = condition(obj, "Dangling")
    return [
        name_of(obj),
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        NONE if method is None else method.get("type", ""),
        age(obj, now),
        "?" if dangling is None else dangling.get("status", ""),
    ]


def _priority_level(obj: JsonObject, now: datetime) -> list[Json]:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", 0)
    queuing = ((limited or {}).get("limitResponse") or {}).get("queuing")
    queues = [NONE if queuing is None else queuing.get(k, 0) for k in ("queues", "handSize", "queueLengthLimit")]
    return [name_of(obj), spec.get("type", ""), shares, *queues, age(obj, now)]


_BINDING_COLUMNS = (
    NAME,
    text("Role", "The role that is granted."),
    AGE,
    text("Users", "Users to whom it is granted.", wide=True),
    text("Groups", "Groups to whom it is granted.", wide=True),
    text("ServiceAccounts", "Service accounts to whom it is granted.", wide=True),
)
_WEBHOOKS: Printer = ((NAME, integer("Webhooks", "How many webhooks are configured."), AGE), counted(("webhooks",)))
_POLICY_BINDING: Printer = (
    (NAME, text("PolicyName", "The policy that is bound."), text("ParamRef", "The objects that parametrise it."), AGE),
    _policy_binding,
)
_EVENT: Printer = (
    (
        text("Last Seen", "How long ago it happened last."),
        text("Type", "Whether it is a warning."),
        text("Reason", "Why it happened, in one word."),
        text("Object", "To what it happened."),
        text("Subobject", "To which part of the object.", wide=True),
        text("Source", "Who reports it.", wide=True),
        text("Message", "What happened."),
        text("First Seen", "How long ago it happened first.", wide=True),
        text("Count", "How often it happened.", wide=True),
        text("Name", NAME.description, wide=True, format="name"),
    ),
    _event,
)

CLUSTER: dict[str, Printer] = {
    "Node": (
        (
            NAME,
            text("Status", "Whether the node is ready and takes pods."),
            text("Roles", "Roles of the node."),
            AGE,
            text("Version", "Version of the node agent."),
            text("Internal-IP", "Address within the cluster.", wide=True),
            text("External-IP", "Address from outside.", wide=True),
            text("OS-Image", "Operating system.", wide=True),
            text("Kernel-Version", "Version of the kernel, and the architecture.", wide=True),
            text("Container-Runtime", "Container runtime and its version.", wide=True),
        ),
        _node,
    ),
    "Namespace": ((NAME, text("Status", "Whether the namespace is in use or going away."), AGE), _namespace),
    "ConfigMap": ((NAME, text("Data", "How many entries there are."), AGE), _config_map),
    "Secret": ((NAME, text("Type", "What it is for."), text("Data", "How many entries there are."), AGE), _secret),
    "ServiceAccount": ((NAME, AGE), name_and_age),
    "ComponentStatus": (
        (
            NAME,
            text("Status", "Whether the component is healthy."),
            text("Message", "What the component says."),
            text("Error", "What is wrong with it."),
        ),
        _component_status,
    ),
    "Event": _EVENT,
    "ResourceQuota": (
        (
            NAME,
            text("Request", "Used and allowed amounts, without limits."),
            text("Limit", "Used and allowed sums of limits."),
            AGE,
        ),
        _quota,
    ),
    "RoleBinding": (_BINDING_COLUMNS, _role_binding),
    "ClusterRoleBinding": (_BINDING_COLUMNS, _role_binding),
    "CertificateSigningRequest": (
        (
            NAME,
            AGE,
            text("SignerName", "Who is asked to sign."),
            text("Requestor", "Who asks."),
            text("RequestedDuration", "For how long the certificate shall be valid."),
            text("Condition", "What was decided."),
        ),
        _certificate_request,
    ),
    "Lease": ((NAME, text("Holder", "Who holds the lease."), AGE), _lease),
    "PriorityClass": (
        (
            NAME,
            integer("Value", "The priority."),
            boolean("Global-Default", "Whether pods without a class get this one."),
            AGE,
            text("PreemptionPolicy", "Whether pods of lower priority may be evicted."),
        ),
        _priority_class,
    ),
    "RuntimeClass": ((NAME, text("Handler", ""), AGE), _runtime_class),
    "APIService": (
        (NAME, text("Service", "Who serves the API."), text("Available", "Whether the API is served."), AGE),
        _api_service,
    ),
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingAdmissionPolicy": _policy("validations"),
    "MutatingAdmissionPolicy": _policy("mutations"),
    "ValidatingAdmissionPolicyBinding": _POLICY_BINDING,
    "MutatingAdmissionPolicyBinding": _POLICY_BINDING,
    "FlowSchema": (
        (
            NAME,
            text("PriorityLevel", "Where matching requests queue."),
            text("MatchingPrecedence", "Which schema is tried first; lower ones are."),
            text("DistinguisherMethod", "By what flows are told apart."),
            AGE,
            text("MissingPL", "Whether the priority level does not exist."),
        ),
        _flow_schema,
    ),
    "PriorityLevelConfiguration": (
        (
            NAME,
            text("Type", "Whether requests are limited."),
            text("NominalConcurrencyShares", "Share of the requests that may be executed at once."),
            text("Queues", "How many queues there are."),
            text("HandSize", "How many queues a flow may use."),
            text("QueueLengthLimit", "How many requests may wait in a queue."),
            AGE,
        ),
        _priority_level,
    ),
}
