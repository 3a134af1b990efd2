"""Records the nodes of ready groups in the ConfigMap `<set>-nodes`, and reads them (`previous_nodes`)."""

from collections.abc import Mapping

from kohort.groups import messages, previous_nodes
from kohort.groups.caches import BY_GROUP, GroupCache, by_group, owned_by
from kohort.groups.leaderworkerset import LeaderWorkerSet
from kohort.groups.previous_nodes import config_map_name, prefers_previous_nodes
from kohort.kube.client import Client
from kohort.kube.errors import AlreadyExists, ApiError, NotFound
from kohort.kube.events import EventRecorder
from kohort.kube.log import Log
from kohort.kube.resources import CONFIG_MAPS, LEADER_WORKER_SETS, NODES, Key
from kohort.objects.core import ConfigMap, Node
from kohort.objects.json_types import JsonObject
from kohort.rules import group_labels
from kohort.rules.group_identity import is_leader
from kohort.rules.group_state import GroupState

_log = Log(logger="kohort.groups")


class NodeRecords:
    """Written by the set controller. What was written is remembered, so that a set at rest costs no request."""

    def __init__(self, client: Client, cache: GroupCache, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._cache = cache
        self._known: dict[Key, tuple[str, dict[str, str]]] = {}
        """By set: its uid, and the recorded lines."""

    def forget(self, key: Key) -> None:
        self._known.pop(key, None)

    async def record(self, group_set: LeaderWorkerSet, states: Mapping[int, GroupState]) -> None:
        key = Key(group_set.metadata.namespace, group_set.metadata.name)
        if not prefers_previous_nodes(group_set.metadata.annotations):
            self.forget(key)
            return
        uid, known = self._known.get(key, ("", {}))
        if uid != group_set.metadata.uid:
            stored = await self._client.find(CONFIG_MAPS, config_map_name(key.name), key.namespace, type=ConfigMap)
            if stored is not None and not owned_by(stored.metadata, group_set):
                text = messages.nodes_not_recorded(config_map_name(key.name))
                self._recorder.warning(LEADER_WORKER_SETS, group_set, "FailedCreate", text, action="Create")
                return
            known = dict(stored.data) if stored is not None else {}
            self._known[key] = (group_set.metadata.uid, known)
        lines = self._lines(group_set, key, states)
        gone = [index for index in known if not index.isdecimal() or int(index) >= group_set.replicas]
        changes: JsonObject = {index: line for index, line in lines.items() if known.get(index) != line}
        changes |= dict.fromkeys(gone)
        if changes:
            try:
                await self._write(group_set, changes)
            except ApiError as problem:  # only a preference is lost; the next look at the set tries again
                _log.warning("nodes of groups not recorded", set=key.name, namespace=key.namespace, error=str(problem))
                return
            self._known[key] = (group_set.metadata.uid, {**known, **lines})
            for index in gone:
                self._known[key][1].pop(index, None)

    def _lines(self, group_set: LeaderWorkerSet, key: Key, states: Mapping[int, GroupState]) -> dict[str, str]:
        leaders = self._cache.leaders(key)
        found: dict[str, str] = {}
        for index, state in states.items():
            if not state.ready or index not in leaders or index >= group_set.replicas:
                continue
            members = [pod for value in by_group(leaders[index]) for pod in self._cache.pods.by_index(BY_GROUP, value)]
            found[str(index)] = previous_nodes.line_of_nodes(members)
        return found

    async def _write(self, group_set: LeaderWorkerSet, changes: JsonObject) -> None:
        metadata = group_set.metadata
        name = config_map_name(metadata.name)
        try:
            await self._client.patch(CONFIG_MAPS, name, metadata.namespace, {"data": changes})
        except NotFound:
            body = {
                "metadata": {
                    "name": name,
                    "namespace": metadata.namespace,
                    "labels": {group_labels.NAME: metadata.name},
                    "ownerReferences": [group_set.owner_reference()],
                },
                "data": {index: line for index, line in changes.items() if line is not None},
            }
            try:
                await self._client.create(CONFIG_MAPS, body)
            except AlreadyExists:
                return


async def with_previous_node(client: Client, group_set: LeaderWorkerSet, pod: JsonObject) -> JsonObject:
    """A new pod of a set with the node of its predecessor, if that can be found out: it is only a preference."""
    metadata = pod["metadata"]
    try:
        name, namespace = config_map_name(group_set.metadata.name), group_set.metadata.namespace
        stored = await client.find(CONFIG_MAPS, name, namespace, type=ConfigMap)
        if stored is None or not owned_by(stored.metadata, group_set):
            return pod
        leads = is_leader(metadata.get("labels") or {})
        node = previous_nodes.previous_node(stored.data, metadata.get("name") or "", leader=leads)
        if not node or not previous_nodes.takes_pods(await client.find(NODES, node, type=Node)):
            return pod
    except ApiError:
        return pod
    return previous_nodes.with_preferred_node(pod, node)
