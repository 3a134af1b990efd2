"""Addresses and ports of services: given out once, given back, never taken away."""

import ipaddress

from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import Json, JsonObject

SERVICES = "/api/v1/namespaces/d/services"
RANGE = ipaddress.ip_network("10.96.0.0/16")


def service(name: str, ports: int = 1, **spec: Json) -> JsonObject:
    listed = [{"name": f"p{index}", "port": 80 + index} for index in range(ports)]
    return {"metadata": {"name": name}, "spec": {"ports": listed, **spec}}


def node_ports(answer: JsonObject) -> list[int]:
    return [port.get("nodePort", 0) for port in answer["spec"]["ports"]]


async def test_every_service_has_an_address_of_its_own(admitting: Api) -> None:
    made = [(await admitting.post(SERVICES, service(f"s{index}"))).json["spec"] for index in range(50)]
    addresses = {spec["clusterIP"] for spec in made}
    assert len(addresses) == 50
    assert all(ipaddress.ip_address(address) in RANGE for address in addresses)
    assert all(spec["clusterIPs"] == [spec["clusterIP"]] for spec in made)


async def test_an_address_can_be_asked_for_once(admitting: Api) -> None:
    assert (await admitting.post(SERVICES, service("a", clusterIP="10.96.3.4"))).code == 201
    second = await admitting.post(SERVICES, service("b", clusterIP="10.96.3.4"))
    assert second.code == 422
    assert [cause["field"] for cause in second.json["details"]["causes"]] == ["spec.clusterIPs"]
    await admitting.delete(f"{SERVICES}/a")
    assert (await admitting.post(SERVICES, service("b", clusterIP="10.96.3.4"))).code == 201


async def test_a_refused_service_keeps_nothing(admitting: Api) -> None:
    wrong = service("a", clusterIP="10.96.3.4", sessionAffinity="Sometimes")
    assert (await admitting.post(SERVICES, wrong)).code == 422
    assert (await admitting.post(SERVICES, service("b", clusterIP="10.96.3.4"))).code == 201


async def test_a_dry_run_keeps_nothing(admitting: Api) -> None:
    assert (await admitting.post(SERVICES, service("a", clusterIP="10.96.3.4"), dryRun="All")).code == 201
    assert (await admitting.post(SERVICES, service("b", clusterIP="10.96.3.4"))).code == 201


async def test_a_dry_run_does_not_look_at_everything(admitting: Api) -> None:
    """Whether an address is free and a port is in the range is found out by allocating; so in Kubernetes 1.36."""
    await admitting.post(SERVICES, service("a", clusterIP="10.96.3.4"))
    assert (await admitting.post(SERVICES, service("b", clusterIP="10.96.3.4"), dryRun="All")).code == 201
    far = service("b", type="NodePort")
    far["spec"]["ports"][0]["nodePort"] = 5
    assert (await admitting.post(SERVICES, far, dryRun="All")).code == 201
    assert (await admitting.post(SERVICES, far)).code == 422
    outside = await admitting.post(SERVICES, service("b", clusterIP="10.97.0.1"), dryRun="All")
    assert outside.message.endswith("is not in the valid range. The range of valid IPs is 10.96.0.0/16")


async def test_a_port_for_health_checks_is_taken_like_any_other(admitting: Api) -> None:
    local: JsonObject = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    assert (await admitting.post(SERVICES, service("a", **local, healthCheckNodePort=32000))).code == 201
    for port in (32000, 5):
        refused = await admitting.post(SERVICES, service("b", **local, healthCheckNodePort=port))
        assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.healthCheckNodePort"]


async def test_node_ports(admitting: Api) -> None:
    first = await admitting.post(SERVICES, service("a", 2, type="NodePort"))
    given = node_ports(first.json)
    assert len(set(given)) == 2
    assert all(30000 <= port <= 32767 for port in given)
    taken = service("b", type="NodePort")
    taken["spec"]["ports"][0]["nodePort"] = given[0]
    refused = await admitting.post(SERVICES, taken)
    assert refused.code == 422
    assert [cause["field"] for cause in refused.json["details"]["causes"]] == ["spec.ports[0].nodePort"]
    outside = service("c", type="NodePort")
    outside["spec"]["ports"][0]["nodePort"] = 80
    assert (await admitting.post(SERVICES, outside)).code == 422


async def test_ports_come_and_go_with_the_type(admitting: Api) -> None:
    await admitting.post(SERVICES, service("a"))
    opened = await admitting.patch(f"{SERVICES}/a", {"spec": {"type": "NodePort"}})
    (port,) = node_ports(opened.json)
    assert port
    kept = await admitting.patch(f"{SERVICES}/a", {"metadata": {"labels": {"x": "y"}}})
    assert node_ports(kept.json) == [port]
    closed = await admitting.patch(f"{SERVICES}/a", {"spec": {"type": "ClusterIP"}})
    assert node_ports(closed.json) == [0]


async def test_an_address_stays(admitting: Api) -> None:
    created = await admitting.post(SERVICES, service("a"))
    moved = await admitting.patch(f"{SERVICES}/a", {"spec": {"clusterIP": "10.96.7.8", "clusterIPs": ["10.96.7.8"]}})
    assert moved.code == 422
    body = created.json
    del body["spec"]["clusterIP"], body["spec"]["clusterIPs"]
    assert (await admitting.put(f"{SERVICES}/a", body)).json["spec"]["clusterIP"], "kept when left out"
    outside = await admitting.patch(f"{SERVICES}/a", {"spec": {"type": "ExternalName", "externalName": "a.example"}})
    assert "clusterIP" not in outside.json["spec"]


async def test_after_a_restart_nothing_is_given_out_twice(admitting: Api) -> None:
    taken = {(await admitting.post(SERVICES, service(f"s{index}"))).json["spec"]["clusterIP"] for index in range(5)}
    again = admitting.restarted()
    refused = await again.post(SERVICES, service("x", clusterIP=min(taken)))
    assert refused.code == 422


async def test_two_ports_cannot_have_one_node_port(admitting: Api) -> None:
    ports = [{"name": "a", "port": 80, "nodePort": 31999}, {"name": "b", "port": 81, "nodePort": 31999}]
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    said = await admitting.post(SERVICES, body)
    assert said.message == (
        'Service "s" is invalid: spec.ports[1].nodePort: Invalid value: 31999: provided port is already allocated'
    )
    ports[1] = {"name": "b", "port": 80, "protocol": "UDP", "nodePort": 31999}
    assert (await admitting.post(SERVICES, body)).code == 201


async def test_a_name_has_no_traffic_of_its_own(admitting: Api) -> None:
    await admitting.post(SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    changed = await admitting.patch(f"{SERVICES}/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}})
    assert "internalTrafficPolicy" not in changed.json["spec"]


async def test_an_external_name_has_no_policy_for_traffic_inside(admitting: Api) -> None:
    spec = {"type": "ExternalName", "externalName": "a.b", "internalTrafficPolicy": "Local"}
    made = await admitting.post(SERVICES, {"metadata": {"name": "x"}, "spec": spec})
    assert (made.code, "internalTrafficPolicy" in made.json["spec"]) == (201, False)
    wrong = await admitting.post(SERVICES, {"metadata": {"name": "y"}, "spec": {**spec, "internalTrafficPolicy": "No"}})
    assert wrong.code == 422
