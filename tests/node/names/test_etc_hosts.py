"""The hosts file of pods."""

from pathlib import Path

import pytest
from tests.builders import pod, service

from kohort.node.names.etc_hosts import host_network_text, hosts_text, pod_records, records, write_hosts
from kohort.objects.core import Service
from kohort.objects.discovery import Endpoint, EndpointConditions, EndpointSlice
from kohort.objects.meta import ObjectMeta
from kohort.objects.node_pods import HostAlias
from kohort.objects.pods import Pod


def slice_of(name: str, *endpoints: Endpoint) -> EndpointSlice:
    metadata = ObjectMeta(name, "ns", labels={"kubernetes.io/service-name": name})
    return EndpointSlice(metadata, endpoints)


def headless(name: str, *, unready: bool = False, **selector: str) -> Service:
    document = service(name).namespaced("ns").but("spec.clusterIP", "None").but("spec.selector", dict(selector))
    return document.but("spec.publishNotReadyAddresses", unready).as_view(Service)


READY = EndpointConditions(ready=True)
UNREADY = EndpointConditions(ready=False)


def test_endpoints_of_headless_services_have_names() -> None:
    found = records(
        [headless("grp")],
        [slice_of("grp", Endpoint(("10.0.0.1",), READY, "grp-0"), Endpoint(("10.0.0.2",), READY))],
    )
    assert set(found) == {
        ("10.0.0.1", "grp", "ns"),
        ("10.0.0.1", "grp-0.grp", "ns"),
        ("10.0.0.2", "grp", "ns"),
        ("10.0.0.2", "10-0-0-2.grp", "ns"),
    }


def test_unready_endpoints_only_where_they_are_wanted() -> None:
    each = slice_of("grp", Endpoint(("10.0.0.1",), UNREADY, "grp-0"))
    assert records([headless("grp")], [each]) == []
    assert len(records([headless("grp", unready=True)], [each])) == 2


def test_other_services_lead_to_their_own_address_and_the_api_server_to_itself() -> None:
    web = service("web").namespaced("ns").but("spec.clusterIP", "10.96.0.5").as_view(Service)
    api = service("kubernetes").namespaced("default").but("spec.clusterIP", "10.96.0.1").as_view(Service)
    assert set(records([web, api], [], "127.0.0.1")) == {
        ("10.96.0.5", "web", "ns"),
        ("127.0.0.1", "kubernetes", "default"),
    }


def test_pods_are_known_by_name_before_any_endpoint_is() -> None:
    leader = pod("grp-0").namespaced("ns").labels(group="a").but("spec.subdomain", "grp").but("spec.hostname", "grp-0")
    one = leader.as_view(Pod)
    assert pod_records([headless("grp", unready=True, group="a")], [(one, "10.0.0.1")]) == [
        ("10.0.0.1", "grp-0.grp", "ns"),
        ("10.0.0.1", "grp", "ns"),
    ]
    assert pod_records([headless("grp", group="a")], [(one, "10.0.0.1")]) == []
    assert pod_records([headless("grp", unready=True, group="b")], [(one, "10.0.0.1")]) == []


def test_a_file_has_short_forms_for_its_own_namespace_only() -> None:
    found = [("10.0.0.1", "grp-0.grp", "ns"), ("10.0.0.9", "web", "other")]
    text = hosts_text(found, "ns", "10.0.0.7", "me", "grp", [HostAlias("1.2.3.4", ("alias", "other"))])
    assert text.splitlines()[7:] == [
        "10.0.0.7\tme.grp.ns.svc.cluster.local\tme",
        "",
        "# Entries added by HostAliases.",
        "1.2.3.4\talias\tother",
        "",
        "# Services and pods of the cluster.",
        "10.0.0.1\tgrp-0.grp.ns.svc.cluster.local grp-0.grp.ns.svc grp-0.grp.ns grp-0.grp",
        "10.0.0.9\tweb.other.svc.cluster.local web.other.svc web.other",
    ]


def test_a_file_begins_as_that_of_a_kubelet() -> None:
    assert hosts_text([], "ns", "10.0.0.7", "me", "", []) == (
        "# Kubernetes-managed hosts file.\n"
        "127.0.0.1\tlocalhost\n"
        "::1\tlocalhost ip6-localhost ip6-loopback\n"
        "fe00::0\tip6-localnet\n"
        "fe00::0\tip6-mcastprefix\n"
        "fe00::1\tip6-allnodes\n"
        "fe00::2\tip6-allrouters\n"
        "10.0.0.7\tme\n"
    )


@pytest.mark.parametrize("machine", ["127.0.0.1 localhost\n", "127.0.0.1 localhost"])
def test_a_pod_on_the_network_of_the_machine_has_the_names_of_the_machine(machine: str) -> None:
    assert host_network_text(machine, [HostAlias("1.2.3.4", ("a", "b"))]) == (
        "# Kubernetes-managed hosts file (host network).\n"
        "127.0.0.1 localhost\n"
        "\n# Entries added by HostAliases.\n"
        "1.2.3.4\ta\tb\n"
    )


def test_the_file_stays_the_same_one(tmp_path: Path) -> None:
    path = tmp_path / "pod" / "hosts"
    write_hosts(path, "one\n")
    before = path.stat().st_ino
    write_hosts(path, "two\n")
    assert (path.read_text(), path.stat().st_ino) == ("two\n", before)
