"""What a cluster lacks that kohort could use, and what that means for its users.

Nothing here is needed to work. It is found out once at the start, said in the log and written into a ConfigMap, so that
users can look up why, for example, leaders roll one at a time.
"""

from typing import Final

import msgspec

from kohort.groups.gang_schedulers import provider_named
from kohort.kube import errors
from kohort.kube.client import Client
from kohort.kube.discovery import served_resources
from kohort.kube.resources import CONFIG_MAPS, STATEFUL_SETS
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

STATUS: Final = "kohort-status"


class Capability(msgspec.Struct, frozen=True):
    name: str
    present: bool
    means: str
    """What its absence means."""


class ClusterFacts(msgspec.Struct, frozen=True):
    """What was asked of the cluster."""

    version: str
    keeps_max_unavailable: bool | None
    """Whether a StatefulSet may say how many pods may be away during a roll; None when it could not be tried."""
    resources: frozenset[str]
    """`pods/resize`, `httproutes.gateway.networking.k8s.io`, ..."""


def missing_capabilities(facts: ClusterFacts, *, gang_scheduler: str = "") -> list[Capability]:
    """
    | capability                   | present when                                      |
    |------------------------------|---------------------------------------------------|
    | StatefulSet maxUnavailable   | a StatefulSet created with it still has it        |
    | in-place pod resize          | the API serves pods/resize                        |
    | Gateway API                  | the API serves HTTPRoutes                         |
    | PodGroups                    | only asked for with gang scheduling               |
    """
    found = [
        Capability(
            "StatefulSet maxUnavailable",
            facts.keeps_max_unavailable is not False,
            "the leaders of a set are replaced one at a time, even if maxUnavailable and maxSurge allow more; "
            "switch on the feature gate MaxUnavailableStatefulSet to roll in parallel",
        ),
        Capability(
            "in-place pod resize",
            "pods/resize" in facts.resources,
            "changed resources recreate groups; Kubernetes 1.33 and later can resize running pods",
        ),
        Capability(
            "Gateway API",
            "httproutes.gateway.networking.k8s.io" in facts.resources,
            "releases can shift traffic through Ingresses only",
        ),
    ]
    provider = provider_named(gang_scheduler)
    if provider is not None:
        found.append(
            Capability(
                f"PodGroups of {provider.resource.group}",
                provider.resource.qualified in facts.resources,
                f"gang scheduling is configured, but pod groups cannot be created: {provider.needs}",
            )
        )
    return found


async def ask(client: Client, namespace: str) -> ClusterFacts:
    version: JsonObject = msgspec.json.decode(await client.raw("GET", "/version"))
    served = await served_resources(client)
    resources = {one.resource.qualified for one in served}
    core: JsonObject = msgspec.json.decode(await client.raw("GET", "/api/v1"))
    resources |= {one["name"] for one in core.get("resources") or [] if "/" in one["name"]}
    return ClusterFacts(
        version.get("gitVersion", ""), await _keeps_max_unavailable(client, namespace), frozenset(resources)
    )


async def _keeps_max_unavailable(client: Client, namespace: str) -> bool | None:
    """A server whose feature is off drops the field without a word, so one has to try; nothing is stored."""
    labels = {"kohort.dev/probe": "true"}
    probe: JsonObject = {
        "metadata": {"name": "kohort-probe", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "serviceName": "kohort-probe",
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "probe", "image": "probe"}]}},
        },
    }
    try:
        stored: JsonObject = await client.create(STATEFUL_SETS, probe, namespace, dry_run=True)
    except errors.ApiError:
        return None
    return "maxUnavailable" in (stored["spec"]["updateStrategy"].get("rollingUpdate") or {})


async def publish(client: Client, namespace: str, facts: ClusterFacts, found: list[Capability], version: str) -> None:
    """Write the ConfigMap that says it all."""
    missing = "".join(f"{one.name}: {one.means}\n" for one in found if not one.present)
    body: JsonObject = {
        "metadata": {"name": STATUS, "namespace": namespace, "labels": {well_known_names.APP_NAME: "kohort"}},
        "data": {
            "version": version,
            "kubernetes": facts.version,
            "missing": missing,
            **{_key(one.name): "present" if one.present else "missing" for one in found},
        },
    }
    await client.apply(CONFIG_MAPS, body, field_manager="kohort-operator")


def _key(name: str) -> str:
    return name.lower().replace(" ", "-")
