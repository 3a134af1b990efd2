"""The gateway of `kohort up` is a process of its own: it starts when needed, is kept, and ends with the cluster."""

import os
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.e2e.test_supervision import cluster_status, part, processes
from tests.e2e.test_up import wait_until

from kohort.objects.json_types import JsonObject

if TYPE_CHECKING:
    from tests.e2e.conftest import Kohort

pytestmark = pytest.mark.e2e

INGRESSES = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
BACKEND = {"service": {"name": "llm", "port": {"number": 80}}}
INGRESS: JsonObject = {"metadata": {"name": "llm"}, "spec": {"defaultBackend": BACKEND}}


def gateways(data: Path) -> list[int]:
    """Process ids of gateways of this data directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"kohort.up.gateway_process" in words and str(data / "kubeconfig").encode() in words:
                found.append(int(entry.name))
    return found


def port(kohort: "Kohort") -> int:
    status = kohort.request(f"{INGRESSES}/llm")["status"].get("loadBalancer") or {}
    served = status.get("ingress") or []
    return int(served[0]["ports"][0]["port"]) if served else 0


def answer(kohort: "Kohort") -> int:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port(kohort)}/", timeout=60)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
    return 200


def test_the_gateway_starts_with_the_first_route_and_is_kept(kohort: "Kohort") -> None:
    child = kohort.up("--simulated-nodes", "1")
    assert gateways(kohort.data) == []
    kohort.request(INGRESSES, INGRESS)
    wait_until(lambda: port(kohort) != 0)
    wait_until(lambda: answer(kohort) == 503)
    (first,), before = gateways(kohort.data), port(kohort)
    config = kohort.request("/api/v1/namespaces/kohort-system/configmaps/kohort-gateway")
    with urllib.request.urlopen(config["data"]["metricsAddress"], timeout=60) as answered:
        assert b"kohort_gateway_requests_total" in answered.read()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: part(cluster_status(kohort)[1], "gateway")["restarts"] == 1)
    record = part(cluster_status(kohort)[1], "gateway")
    assert record["reason"] == "GatewayEnded: the process of the gateway ended by signal SIGKILL"
    wait_until(lambda: answer(kohort) == 503)
    assert gateways(kohort.data) not in ([], [first])
    assert port(kohort) == before
    wait_until(lambda: part(cluster_status(kohort)[1], "gateway")["state"] == "Ready")
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert gateways(kohort.data) == []


def test_a_control_plane_that_is_killed_leaves_no_gateway(kohort: "Kohort") -> None:
    child = kohort.up("--simulated-nodes", "1")
    kohort.request(INGRESSES, INGRESS)
    wait_until(lambda: answer(kohort) == 503)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    wait_until(lambda: gateways(kohort.data) == [])
    assert processes(kohort.data) == []
