"""The operator: which controllers and webhooks run in one process.

On a real cluster the definitions and webhook configurations come from `kohort install`; then `register` only runs the
controllers. Nothing is installed on an embedded cluster, so there the operator brings its own
(`self_contained`): it installs the definitions and the roles for users, offers its webhooks (by a call within the
process, or on loopback) and points the API server at them.
"""

import asyncio
import contextlib
from typing import Final

from kohort.admission.group_webhooks import GroupWebhooks
from kohort.admission.rollout_webhooks import CONVERT, RolloutWebhooks
from kohort.admission.webhook_configurations import Address, configurations
from kohort.admission.webhook_host import Loopback, WebhookHost
from kohort.groups import crd as group_definition
from kohort.groups.planned_groups import plan_group
from kohort.groups.registration import register as register_groups
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, Invalid, NotFound
from kohort.kube.manager import Manager
from kohort.kube.resources import (
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    VALIDATING_WEBHOOKS,
    Key,
    Resource,
)
from kohort.objects import well_known_names
from kohort.objects.json_types import Json, JsonObject
from kohort.rollouts import crd as rollout_definitions
from kohort.rollouts.analysis.http_fetch import Fetch
from kohort.rollouts.feature_gates import Features
from kohort.rollouts.registration import DEFAULT as DEFAULT_FEATURES
from kohort.rollouts.registration import register as register_rollouts
from kohort.rollouts.traffic.annotations import CONFIGURATION, CONFIGURATION_NAMESPACE
from kohort.rollouts.traffic.registration import register as register_traffic
from kohort.rules.user_roles import user_roles

FIELD_MANAGER: Final = "kohort-operator"
LABELS: Final = {well_known_names.APP_NAME: "lws", "app.kubernetes.io/managed-by": "kohort"}
"""Of everything that the operator, or who installs it, brings to a cluster; by these it is found again for removal."""
SELECTOR: Final = ",".join(f"{name}={value}" for name, value in LABELS.items())
_ESTABLISHED_SECONDS: Final = 10.0


def register(
    manager: Manager,
    *,
    webhooks: WebhookHost | None = None,
    self_contained: bool = True,
    default_resize_policy: str = "None",
    gang_scheduler: str = "",
    group_webhooks: GroupWebhooks | None = None,
    rollout_webhooks: RolloutWebhooks | None = None,
    rollouts: bool = True,
    scripts_namespace: str = CONFIGURATION_NAMESPACE,
    features: Features = DEFAULT_FEATURES,
    fetch: Fetch | None = None,
) -> None:
    """Add everything that the operator does to `manager`.

    `webhooks` is where they are served; on loopback if not said otherwise. `group_webhooks` and `rollout_webhooks` are
    those that the caller serves already; they get the caches of this manager. In `scripts_namespace` is the ConfigMap
    with traffic scripts of users. `features` are about Rollouts. `fetch` is how metrics are read, by HTTP if not said
    otherwise.
    """
    groups = group_webhooks or GroupWebhooks(default_resize_policy=default_resize_policy, gang_scheduler=gang_scheduler)
    groups.cache = register_groups(manager, gang_scheduler=gang_scheduler)
    groups.client = groups.client or manager.client
    releases = rollout_webhooks or RolloutWebhooks()
    if rollouts:
        traffic = register_traffic(manager, configuration=Key(scripts_namespace, CONFIGURATION), fetch=fetch)
        releases.cache = register_rollouts(manager, traffic, plan_group, features=features, fetch=fetch)
        releases.traffic, releases.features = traffic, features
        releases.client = releases.client or manager.client
    if not self_contained:
        return
    endpoints = {
        **groups.endpoints(),
        **releases.endpoints(),
    }
    host = webhooks or Loopback()

    async def prepare() -> None:
        address = await host.open(endpoints)
        await install_definitions(manager.client, address)
        await install_webhooks(manager.client, address)
        await _install_user_roles(manager.client, rollouts)
        if rollouts:
            await _ensure_namespace(manager.client, scripts_namespace)

    manager.prepare(prepare)
    manager.clean_up(host.close)


async def _ensure_namespace(client: Client, name: str) -> None:
    """Where users put the ConfigMap with their traffic scripts; tools of Kruise Rollouts expect it to be there."""
    if await client.find(NAMESPACES, name) is None:
        with contextlib.suppress(AlreadyExists):
            await client.create(NAMESPACES, {"metadata": {"name": name, "labels": dict(LABELS)}})


async def _install_user_roles(client: Client, rollouts: bool) -> None:
    """What is as it should be is not written again."""
    for role in map(labelled, user_roles(rollouts=rollouts)):
        found: JsonObject | None = await client.find(CLUSTER_ROLES, role["metadata"]["name"])
        if found is None or not contains(found, role):
            await client.apply(CLUSTER_ROLES, role, field_manager=FIELD_MANAGER)


def definitions(address: Address | None = None, *, rollouts: bool = True) -> list[JsonObject]:
    """Every CustomResourceDefinition of kohort. `address` is where older versions of Rollouts are converted."""
    converter = None if address is None else address.client(CONVERT)
    found = [group_definition.definition(), *(rollout_definitions.definitions(converter) if rollouts else [])]
    return [labelled(one) for one in found]


def webhooks(address: Address, *, rollouts: bool = True) -> list[JsonObject]:
    """Every webhook configuration of kohort, for webhooks that are served at `address`."""
    return [labelled(one) for one in configurations(address, rollouts=rollouts)]


def is_labelled(obj: JsonObject) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in LABELS.items())


def labelled(obj: JsonObject) -> JsonObject:
    labels = {**obj["metadata"].get("labels", {}), **LABELS}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


async def install_definitions(
    client: Client, address: Address, *, rollouts: bool = True, point_here: bool = True
) -> None:
    """Apply the definitions and wait until they are served. Without `point_here` a converter that is named already
    stays: another operator may be leading."""
    wanted = definitions(address, rollouts=rollouts)
    for definition in wanted:
        await _refresh_definition(client, definition, point_here=point_here)
    async with asyncio.timeout(_ESTABLISHED_SECONDS):
        for definition in wanted:
            await wait_established(client, definition["metadata"]["name"])


async def _refresh_definition(client: Client, definition: JsonObject, *, point_here: bool) -> None:
    """Bring a definition up to date; what is as it should be is not written again, which is slow on both sides."""
    found: JsonObject | None = await client.find(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    before = ((found or {}).get("spec", {}).get("conversion") or {}).get("webhook")
    if before is not None and not point_here:
        kept = {"strategy": "Webhook", "webhook": before}
        definition = {**definition, "spec": {**definition["spec"], "conversion": kept}}
    if found is None or not contains(found, definition):
        await apply_definition(client, definition, FIELD_MANAGER)


async def apply_definition(client: Client, definition: JsonObject, field_manager: str) -> None:
    try:
        await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, field_manager=field_manager)
    except Invalid:
        found: JsonObject | None = await client.find(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
        if found is None:
            raise
        # From a Service to an address of its own, or back: the half of the other owner would stay beside ours.
        labels = {**found["metadata"].get("labels", {}), **definition["metadata"].get("labels", {})}
        metadata = {**found["metadata"], "labels": labels}
        await client.update(CUSTOM_RESOURCE_DEFINITIONS, {**found, "metadata": metadata, "spec": definition["spec"]})


def contains(live: Json, wanted: Json) -> bool:
    """Whether everything that is wanted is there, so that applying it would change nothing."""
    if live == wanted:
        return True
    if isinstance(live, dict) and isinstance(wanted, dict):
        return all(key in live and contains(live[key], value) for key, value in wanted.items())
    if isinstance(live, list) and isinstance(wanted, list):
        return len(live) == len(wanted) and all(map(contains, live, wanted))
    return False


async def install_webhooks(client: Client, address: Address, *, rollouts: bool = True) -> None:
    """What is as it should be is not written again."""
    for configuration in webhooks(address, rollouts=rollouts):
        found: JsonObject | None = await client.find(_resource(configuration), configuration["metadata"]["name"])
        if found is None or not contains(found, configuration):
            await apply_webhooks(client, configuration, FIELD_MANAGER)


def _resource(configuration: JsonObject) -> Resource:
    mutating = configuration["kind"] == "MutatingWebhookConfiguration"
    return MUTATING_WEBHOOKS if mutating else VALIDATING_WEBHOOKS


async def apply_webhooks(client: Client, configuration: JsonObject, field_manager: str) -> None:
    resource = _resource(configuration)
    try:
        made: JsonObject = await client.apply(resource, configuration, field_manager=field_manager)
    except Invalid:
        # From a Service to an address of its own, or back: the half of the other owner would stay beside ours.
        with contextlib.suppress(NotFound):
            await client.delete(resource, configuration["metadata"]["name"])
        made = await client.apply(resource, configuration, field_manager=field_manager)
    # Hooks that another operator had in this configuration would ask us for what we do not answer.
    ours = {hook["name"] for hook in configuration["webhooks"]}
    kept = [hook for hook in made["webhooks"] if hook["name"] in ours]
    if len(kept) < len(made["webhooks"]):
        await client.update(resource, {**made, "webhooks": kept})


async def installed_behind(client: Client) -> str:
    """The Service that the webhook configurations of an installation lead to; empty where there is none."""
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for one in (await client.list(resource, label_selector=SELECTOR)).items:
            for hook in one.get("webhooks") or ():
                if service := hook["clientConfig"].get("service"):
                    return f"{service['namespace']}/{service['name']}"
    return ""


async def wait_established(client: Client, name: str) -> None:
    async for event in client.watch(CUSTOM_RESOURCE_DEFINITIONS, field_selector=f"metadata.name={name}"):
        conditions = (event.object.get("status") or {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            return
