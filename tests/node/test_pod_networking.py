"""What pods see of names and services, with real processes below `kohort up`."""

import os
import socket
import sys
from pathlib import Path

import pytest
from tests.node.processes import Bench, bench, data, shell

from kohort.kube.client import PatchType
from kohort.kube.resources import SERVICES
from kohort.node.pod_network_namespaces import NetworkNamespaces
from kohort.objects.json_types import Json, JsonObject

__all__ = ["bench", "data"]
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0 or not NetworkNamespaces.permitted(), reason="network namespaces are needed"),
]
MACHINE_HOSTS = Path("/etc/hosts").read_text()
SERVE = """
import http.server, os
class Named(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.uname().nodename.encode())
http.server.ThreadingHTTPServer(('0.0.0.0', 8080), Named).serve_forever()
"""
COUNT = """
import sys, time, urllib.request
found = set()
for _ in range(int(sys.argv[2])):
    while True:
        try:
            found.add(urllib.request.urlopen(sys.argv[1], timeout=5).read())
            break
        except OSError:
            time.sleep(0.1)
print(len(found))
"""


async def serve(bench: Bench, name: str, app: str, **port: Json) -> None:
    ready = {"httpGet": {"port": 8080}, "periodSeconds": 1}
    ports = [{"containerPort": 8080, **port}]
    container = {"name": "c", "image": "host", "command": [sys.executable, "-c", SERVE], "ports": ports}
    await bench.run(name, {**container, "readinessProbe": ready}, labels={"app": app})


async def say(bench: Bench, name: str, *command: str, **spec: Json) -> str:
    """What a program says in a pod of its own."""
    await bench.run(name, {"name": "c", "image": "host", "command": [*command]}, restartPolicy="Never", **spec)
    await bench.ended(name)
    return await bench.log(name)


async def endpoints_met(bench: Bench, asker: str, url: str, requests: int) -> int:
    return int(await say(bench, asker, sys.executable, "-c", COUNT, url, str(requests)))


async def test_a_client_meets_one_endpoint_while_affinity_is_on(bench: Bench) -> None:
    ports = [{"port": 80, "targetPort": 8080}]
    spec = {"type": "NodePort", "selector": {"app": "sticky"}, "ports": ports, "sessionAffinity": "ClientIP"}
    made = await bench.client.create(SERVICES, {"metadata": {"name": "sticky"}, "spec": spec}, "default")
    for number in range(3):
        await serve(bench, f"sticky-{number}", "sticky")
    for number in range(3):
        await bench.ready(f"sticky-{number}")
    url = f"http://{made['spec']['clusterIP']}/"
    assert await endpoints_met(bench, "asks-sticky", url, 30) == 1
    off = {"spec": {"sessionAffinity": "None"}}
    await bench.client.patch(SERVICES, "sticky", "default", off, PatchType.MERGE)
    assert await endpoints_met(bench, "asks-free", url, 60) > 1
    outside = f"http://127.0.0.1:{made['spec']['ports'][0]['nodePort']}/"
    await bench.run("on-host", shell(f"curl -s {outside}"), restartPolicy="Never", hostNetwork=True)
    await bench.ended("on-host")
    assert (await bench.log("on-host")).startswith("sticky-")


async def test_the_hosts_file_is_that_of_a_kubelet(bench: Bench, tmp_path: Path) -> None:
    aliases: list[JsonObject] = [{"ip": "123.45.67.89", "hostnames": ["foo", "bar"]}]
    text = await say(bench, "managed", "cat", "/etc/hosts", hostAliases=aliases)
    assert text.startswith("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n")
    assert "# Entries added by HostAliases.\n123.45.67.89\tfoo\tbar\n" in text
    outside = await say(bench, "of-machine", "cat", "/etc/hosts", hostAliases=aliases, hostNetwork=True)
    assert outside.startswith("# Kubernetes-managed hosts file (host network).\n" + MACHINE_HOSTS)
    assert outside.endswith("123.45.67.89\tfoo\tbar\n")
    (tmp_path / "own").write_text("127.0.0.1 mine\n")
    mount = {"name": "own", "mountPath": "/etc/hosts"}
    volumes = [{"name": "own", "hostPath": {"path": str(tmp_path / "own")}}]
    await bench.run("own", shell("cat /etc/hosts", volumeMounts=[mount]), restartPolicy="Never", volumes=volumes)
    await bench.ended("own")
    assert await bench.log("own") == "127.0.0.1 mine\n"


def other_address() -> str:
    """An address of this machine that is not a loopback one, empty if there is none. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        return str(probe.getsockname()[0])


@pytest.mark.skipif(not other_address(), reason="a second address of the machine is needed")
async def test_one_host_port_on_two_addresses_leads_to_two_pods(bench: Bench) -> None:
    with socket.socket() as probe:
        probe.bind(("", 0))
        number = probe.getsockname()[1]
    places = {"port-one": "127.0.0.1", "port-two": other_address()}
    for name, address in places.items():
        await serve(bench, name, "host-port", hostPort=number, hostIP=address)
    udp = [{"containerPort": 8080, "hostPort": number, "hostIP": other_address(), "protocol": "UDP"}]
    await bench.run("port-three", shell("sleep 100", ports=udp))
    for name in (*places, "port-three"):
        await bench.ready(name)
    for name, address in places.items():
        words = ("curl", "-s", "--interface", other_address(), f"http://{address}:{number}/")
        assert await say(bench, f"asks-{name}", *words, hostNetwork=True) == name
