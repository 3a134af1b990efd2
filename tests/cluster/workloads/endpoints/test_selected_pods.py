"""The pods behind a Service, followed from change to change."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.workloads.endpoints.controller import service_facts
from kohort.cluster.workloads.endpoints.selected_pods import Backends
from kohort.kube.client import Client, Selection
from kohort.kube.http import Request, Response
from kohort.kube.informer import Informer
from kohort.kube.resources import NODES, PODS, SERVICES, Key
from kohort.kube.transport import InProcessTransport
from kohort.objects.core import Node, Pod
from kohort.objects.json_types import JsonObject
from kohort.objects.meta import ObjectMeta
from kohort.objects.pods import PodSpec, PodStatus

LABELS: tuple[dict[str, str], ...] = ({}, {"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}, {"tier": "x"})
WEB = Key("ns", "web")


async def nobody(_: Request) -> Response:
    raise AssertionError("caches are filled by hand here")


CLIENT = Client(InProcessTransport(nobody))
PODS_CHANGE = st.tuples(st.integers(0, 4), st.sampled_from((None, *LABELS)))
SERVICE_CHANGE = st.sampled_from((None, *LABELS))


def web(selector: dict[str, str]) -> JsonObject:
    return {"metadata": {"namespace": "ns", "name": "web"}, "spec": {"selector": selector}}


def pod(number: int, labels: dict[str, str]) -> Pod:
    metadata = ObjectMeta(name=f"p{number}", namespace="ns", uid=f"u{number}", labels=labels)
    return Pod(metadata=metadata, spec=PodSpec(node_name="n"), status=PodStatus(pod_ip=f"10.0.0.{number + 1}"))


@given(st.lists(PODS_CHANGE | SERVICE_CHANGE, max_size=30))
def test_changes_lead_to_what_a_look_at_everything_finds(history: list[tuple[int, dict[str, str]] | None]) -> None:
    services = Informer.alone(CLIENT, Selection(SERVICES), JsonObject)
    pods = Informer.alone(CLIENT, Selection(PODS), Pod)
    nodes = Informer.alone(CLIENT, Selection(NODES), Node)
    backends = Backends(services, pods, nodes)
    for change in history:
        if isinstance(change, tuple):
            number, labels = change
            if labels is None:
                pods.store.forget(Key("ns", f"p{number}"))
            else:
                pods.store.change("MODIFIED", Key("ns", f"p{number}"), pod(number, labels))
        elif change is None:
            services.store.forget(WEB)
        else:
            services.store.change("MODIFIED", WEB, web(change))
        service = services.get(WEB)
        if service is None or not service["spec"]["selector"]:
            continue
        selected = [one for one in pods.list() if service["spec"]["selector"].items() <= one.metadata.labels.items()]
        assert sorted(one.metadata.name for one in backends.pods_of(service)) == sorted(
            one.metadata.name for one in selected
        )
        listed = backends.listed(service, service_facts(service))
        assert [one.entry["targetRef"]["name"] for one in listed] == sorted(one.metadata.name for one in selected)
        assert all(backends.services_of(one) == [WEB] for one in selected)


def test_a_node_that_appears_or_moves_is_seen() -> None:
    services = Informer.alone(CLIENT, Selection(SERVICES), JsonObject)
    pods = Informer.alone(CLIENT, Selection(PODS), Pod)
    nodes = Informer.alone(CLIENT, Selection(NODES), Node)
    backends = Backends(services, pods, nodes)
    service = web({"app": "a"})
    services.store.change("ADDED", WEB, service)
    pods.store.change("ADDED", Key("ns", "p0"), pod(0, {"app": "a"}))

    def placed_and_zone() -> tuple[bool, str]:
        (one,) = backends.listed(service, service_facts(service))
        return one.pod.placed, one.entry.get("zone", "")

    assert placed_and_zone() == (False, "")
    for zone in ("east", "west"):
        node = Node(metadata=ObjectMeta(name="n", labels={"topology.kubernetes.io/zone": zone}))
        nodes.store.change("MODIFIED", Key("", "n"), node)
        assert placed_and_zone() == (True, zone)
