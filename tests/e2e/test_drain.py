"""`kubectl drain` of a node with several groups, on `kohort up`."""

import json
import subprocess
import sys
from pathlib import Path

import yaml
from tests.builders import lws
from tests.children import environment
from tests.e2e.conftest import Kohort, Kubectl

SLOW = {"simulation.kohort.dev/start-latency": "1s"}


def labelled_node(run: Kubectl, name: str) -> None:
    run("annotate", "node", name, *(f"{key}={value}" for key, value in SLOW.items()))


def test_a_drain_goes_group_by_group_and_ends(
    kubectl: str, kohort: Kohort, run_kubectl: Kubectl, tmp_path: Path
) -> None:
    kohort.up("--simulated-nodes", "3")
    first, *others = sorted(json.loads(run_kubectl("get", "nodes", "-o", "json"))["items"], key=str)
    node = first["metadata"]["name"]
    for one in (first, *others):
        labelled_node(run_kubectl, one["metadata"]["name"])
    for one in others:
        run_kubectl("cordon", one["metadata"]["name"])
    manifest = tmp_path / "llm.yaml"
    manifest.write_text(
        yaml.safe_dump(dict(lws("llm").replicas(3).size(2).but("spec.disruptionBudget", {"maxUnavailable": 1})))
    )
    run_kubectl("apply", "-f", str(manifest))
    run_kubectl("wait", "lws/llm", "--for=condition=Available", "--timeout=120s")
    for one in others:
        run_kubectl("uncordon", one["metadata"]["name"])
    plan = [sys.executable, "-m", "kohort", "plan", "--kubeconfig", str(kohort.kubeconfig), "--drain", node]
    shown = subprocess.run(plan, env=environment(), capture_output=True, text=True, timeout=200, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "1. default/llm group 0: llm-0, llm-0-1" in shown.stdout
    assert "3. default/llm group 2: llm-2, llm-2-1; when group 1 is ready again" in shown.stdout

    to_server = [kubectl, "--kubeconfig", str(kohort.kubeconfig)]
    watch = [*to_server, "get", "lws", "llm", "--watch", "-o", "jsonpath={.status.readyReplicas}{'\\n'}"]
    drain = [*to_server, "drain", node, "--timeout=120s"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        try:
            assert watching.stdout.readline() == "3\n"
            drained = subprocess.run(drain, capture_output=True, text=True, timeout=200, check=False)
        finally:
            watching.terminate()
        fewest = min(int(line or 0) for line in watching.stdout.read().splitlines())
    complaints = drained.stderr
    assert drained.returncode == 0, complaints
    assert fewest >= 2
    assert "LeaderWorkerSet default/llm allows 1 of its 3 groups to be away" in complaints
    found = json.loads(run_kubectl("get", "pods", "-o", "json"))["items"]
    assert all(one["spec"].get("nodeName") != node for one in found)
