"""What the name server of a node says, as records and as bytes."""

import asyncio
import struct

import msgspec
import pytest
from tests.builders import pod

from kohort.node.names.dns_messages import (
    AAAA,
    CNAME,
    PTR,
    SRV,
    A,
    Question,
    Record,
    Srv,
    Unreadable,
    answer,
    parse_question,
    shortened,
)
from kohort.node.names.dns_server import NameServer
from kohort.node.names.dns_zone import Zone, build_zone
from kohort.node.names.etc_hosts import pod_records, records
from kohort.node.names.resolv_conf import resolv_conf
from kohort.objects.core import Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.node_pods import NodePod


def service(name: str, **spec: Json) -> Service:
    return msgspec.convert({"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": spec}, Service)


def slice_of(name: str, *endpoints: JsonObject) -> EndpointSlice:
    labels = {"kubernetes.io/service-name": name}
    ports = [{"name": "http", "port": 8080, "protocol": "TCP"}]
    document = {"metadata": {"name": f"{name}-1", "namespace": "ns", "labels": labels}, "endpoints": endpoints}
    return msgspec.convert({**document, "ports": ports}, EndpointSlice)


PORTS = [{"name": "http", "port": 80, "protocol": "TCP"}]
SERVICES = [
    service("web", clusterIP="198.18.7.9", ports=PORTS),
    service("group", clusterIP="None", ports=PORTS),
    service("patient", clusterIP="None", publishNotReadyAddresses=True),
    service("away", type="ExternalName", externalName="example.com"),
]
SLICES = [
    slice_of(
        "group",
        {"addresses": ["198.18.1.1"], "hostname": "group-0"},
        {"addresses": ["198.18.1.2"]},
        {"addresses": ["198.18.1.3"], "conditions": {"ready": False}},
    ),
    slice_of("patient", {"addresses": ["198.18.1.3"], "hostname": "late", "conditions": {"ready": False}}),
]


def zone() -> Zone:
    return build_zone(records(SERVICES, SLICES), SERVICES, SLICES)


def said(name: str, kind: int) -> list[str | Srv] | None:
    found = zone().answers(name, kind)
    return None if found is None else [each.value for each in found]


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("web.ns.svc.cluster.local", A, ["198.18.7.9"]),
        ("web.ns.svc.cluster.local", AAAA, []),
        ("group.ns.svc.cluster.local", A, ["198.18.1.1", "198.18.1.2"]),
        ("group-0.group.ns.svc.cluster.local", A, ["198.18.1.1"]),
        ("198-18-1-2.group.ns.svc.cluster.local", A, ["198.18.1.2"]),
        ("late.patient.ns.svc.cluster.local", A, ["198.18.1.3"]),
        ("_http._tcp.web.ns.svc.cluster.local", SRV, [Srv("web.ns.svc.cluster.local", 80)]),
        (
            "_http._tcp.group.ns.svc.cluster.local",
            SRV,
            [Srv("198-18-1-2.group.ns.svc.cluster.local", 8080), Srv("group-0.group.ns.svc.cluster.local", 8080)],
        ),
        ("away.ns.svc.cluster.local", A, ["example.com"]),
        ("1.1.18.198.in-addr.arpa", PTR, ["group-0.group.ns.svc.cluster.local"]),
        ("svc.cluster.local", A, []),
        ("other.ns.svc.cluster.local", A, None),
        ("group.elsewhere.svc.cluster.local", A, None),
        ("9.9.18.198.in-addr.arpa", PTR, None),
    ],
)
def test_what_a_name_stands_for(name: str, kind: int, expected: list[str | Srv] | None) -> None:
    assert said(name, kind) == expected


@pytest.mark.parametrize(
    ("spec", "kind", "expected"),
    [
        ({"type": "ExternalName", "clusterIP": "198.18.7.9"}, CNAME, "example.com"),
        ({"type": "ExternalName", "clusterIP": "None"}, CNAME, "example.com"),
        ({"type": "ClusterIP", "clusterIP": "198.18.7.9"}, A, "198.18.7.9"),
        ({"type": "NodePort", "clusterIP": "198.18.7.9"}, A, "198.18.7.9"),
    ],
)
def test_the_type_of_a_service_decides_what_its_name_stands_for(spec: dict[str, str], kind: int, expected: str) -> None:
    """Fields of the type that it had before may still be there."""
    services = [service("changed", externalName="example.com", **spec)]
    name = "changed.ns.svc.cluster.local"
    assert build_zone(records(services, []), services, []).answers(name, A) == [Record(name, kind, expected)]


def test_an_alias_is_called_one() -> None:
    assert zone().answers("away.ns.svc.cluster.local", A) == [Record("away.ns.svc.cluster.local", CNAME, "example.com")]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("web.ns.svc.cluster.local", True),
        ("cluster.local", True),
        ("example.com", False),
        ("notcluster.local", False),
        ("9.9.18.198.in-addr.arpa", True),
        ("8.8.8.8.in-addr.arpa", False),
    ],
)
def test_only_the_clusters_names_are_answered_here(name: str, ours: bool) -> None:
    assert zone().responsible(name) is ours


def test_a_pod_is_known_before_any_endpoint_says_so() -> None:
    headless = service("group", clusterIP="None", selector={"app": "a"}, publishNotReadyAddresses=True)
    early = pod("leader", "ns").labels(app="a").but("spec.subdomain", "group").as_view(NodePod)
    found = build_zone(pod_records([headless], [(early, "127.20.0.1")]), [headless], [])
    assert [each.value for each in found.answers("leader.group.ns.svc.cluster.local", A) or []] == ["127.20.0.1"]


QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"\x03WEB\x02ns\x00" + b"\x00\x01\x00\x01"
"""Header with recursion desired, one question: A of WEB.ns, as RFC 1035 lays it out."""


def test_a_question_is_read() -> None:
    found = parse_question(QUESTION)
    assert (found.number, found.name, found.kind, found.size) == (0x1234, "web.ns", A, 512)
    extra = QUESTION[:10] + b"\x00\x01" + QUESTION[12:] + b"\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"
    assert parse_question(extra).size == 4096


@pytest.mark.parametrize("data", [b"", QUESTION[:14], QUESTION[:4] + b"\x00\x02" + QUESTION[6:]])
def test_what_is_no_question_is_not_answered(data: bytes) -> None:
    with pytest.raises(Unreadable):
        parse_question(data)


def test_an_answer_is_written() -> None:
    message = answer(parse_question(QUESTION), [Record("web.ns", A, "198.18.7.9")])
    assert message == (
        b"\x12\x34\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00"
        b"\x03WEB\x02ns\x00\x00\x01\x00\x01"
        b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\xc6\x12\x07\x09"
    )


def test_nothing_is_answered_with_who_knows_it() -> None:
    message = answer(parse_question(QUESTION), (), 3, zone="cluster.local")
    flags, _, answers, authorities = struct.unpack_from(">HHHH", message, 2)
    assert (flags & 0xF, answers, authorities) == (3, 0, 1)


def test_what_does_not_fit_says_so() -> None:
    question = parse_question(QUESTION)
    long = answer(question, [Record("web.ns", A, f"198.18.0.{number}") for number in range(60)])
    short = shortened(long, question)
    assert len(long) > 512 and len(short) < 512 and short[2] & 0x02
    assert shortened(long, Question(1, "web.ns", A, size=4096)) == long


async def asked(port: int, data: bytes) -> bytes:
    answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    class Client(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            answered.set_result(data)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Client, remote_addr=("127.0.0.1", port))
    transport.sendto(data)
    try:
        return await asyncio.wait_for(answered, 10)
    finally:
        transport.close()


async def test_a_server_answers_by_datagram_and_by_stream() -> None:
    server = NameServer(zone, list)
    port = await server.start("127.0.0.1", 0)
    try:
        labels = b"".join(bytes([len(each)]) + each for each in b"web.ns.svc.cluster.local".split(b".")) + b"\0"
        question = QUESTION[:12] + labels + b"\x00\x01\x00\x01"
        message = await asked(port, question)
        assert message[:2] == b"\x12\x34" and message.endswith(b"\x00\x04\xc6\x12\x07\x09")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack(">H", len(question)) + question)
        (length,) = struct.unpack(">H", await reader.readexactly(2))
        assert await reader.readexactly(length) == message
        writer.close()
        foreign = await asked(port, QUESTION)
        assert foreign[3] & 0xF == 2, "nobody to ask: a failure, not a wrong answer"
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "search ns.svc.cluster.local svc.cluster.local cluster.local lan\nnameserver 10.1\noptions ndots:5\n"),
        ({"hostNetwork": True}, "search lan\nnameserver 9.9\n"),
        ({"dnsPolicy": "Default"}, "search lan\nnameserver 9.9\n"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1"]}}, "nameserver 1.1\n"),
        (
            {"dnsConfig": {"searches": ["more"], "options": [{"name": "ndots", "value": "2"}, {"name": "rotate"}]}},
            "search ns.svc.cluster.local svc.cluster.local cluster.local lan more\nnameserver 10.1\n"
            "options ndots:2 rotate\n",
        ),
    ],
)
def test_the_resolv_conf_of_a_pod(spec: JsonObject, expected: str) -> None:
    document = pod("p", "ns")
    for key, value in spec.items():
        document = document.but(f"spec.{key}", value)
    assert resolv_conf(document.as_view(NodePod), "10.1", ["9.9"], ["lan"]) == expected
