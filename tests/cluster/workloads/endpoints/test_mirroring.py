from kohort.cluster.workloads.endpoints.mirroring import slices
from kohort.objects.json_types import JsonObject

HTTP, RPC = {"name": "http", "port": 80, "protocol": "TCP"}, {"name": "rpc", "port": 90, "protocol": "TCP"}


def endpoints(*subsets: JsonObject) -> JsonObject:
    return {"metadata": {"name": "s", "namespace": "ns", "uid": "u"}, "subsets": list(subsets)}


def contents(*subsets: JsonObject) -> list[tuple[list[str], list[tuple[str, bool]]]]:
    return [
        (
            [port["name"] for port in one["ports"]],
            [(entry["addresses"][0], entry["conditions"]["ready"]) for entry in one["endpoints"]],
        )
        for one in slices(endpoints(*subsets))
    ]


def test_ports_that_other_addresses_have_too_get_a_slice_of_their_own() -> None:
    both = {"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}], "ports": [HTTP, RPC]}
    assert contents(both) == [(["http", "rpc"], [("10.0.0.1", True), ("10.0.0.2", False)])]
    assert contents(both, {"addresses": [{"ip": "fd00::1"}], "ports": [HTTP]}) == [
        (["http"], [("10.0.0.1", True), ("10.0.0.2", False)]),
        (["http"], [("fd00::1", True)]),
        (["rpc"], [("10.0.0.1", True), ("10.0.0.2", False)]),
    ]


def test_an_address_that_is_ready_in_one_subset_is_ready() -> None:
    waiting, ready = ({name: [{"ip": "10.0.0.1"}], "ports": [HTTP]} for name in ("notReadyAddresses", "addresses"))
    assert contents(waiting, ready) == contents(ready, waiting) == [(["http"], [("10.0.0.1", True)])]


def test_subsets_with_the_same_addresses_share_a_slice() -> None:
    one, two = ({"addresses": [{"ip": "10.0.0.1"}], "ports": [port]} for port in (HTTP, RPC))
    assert contents(one, two) == [(["http", "rpc"], [("10.0.0.1", True)])]
    assert contents({"addresses": [{"ip": "10.0.0.1"}]}) == [([], [("10.0.0.1", True)])]
