"""`kubectl kohort`, run by kubectl against an embedded cluster."""

import pytest
from tests.docs.pages import Sandbox

SESSION = """
set -eu
kohort up --simulated-nodes 4 --detach
export KUBECONFIG=~/.local/share/kohort/kubeconfig
kubectl plugin list
kubectl kohort version
kubectl apply -f examples/llm.yaml
kubectl kohort status llm -w --timeout 60
kubectl kohort get llm -n default --context kohort -o wide
kubectl kohort -n default --context kohort get llm
kubectl __complete kohort status l
code=0; kubectl kohort explain nothing || code=$?
echo "code $code"
"""


@pytest.mark.e2e
def test_kubectl_runs_the_plugin(sandbox: Sandbox) -> None:
    done = sandbox.run(SESSION)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/kubectl-kohort" in done.stdout
    assert done.stdout.count("2/2 groups ready, 2 up to date") == 2
    assert "\nllm\n:4\n" in done.stdout
    assert "code 1" in done.stdout
    assert "there is no LeaderWorkerSet nothing in namespace default; there are: llm" in done.stderr
