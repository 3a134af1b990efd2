"""Mistakes that readers of the tutorial can make: each error message names the object and what to do."""

import re
import shlex
import socket

import pytest
from click.testing import CliRunner
from tests.docs.pages import ROOT, Sandbox

from kohort.cli.main import main

EDITED = "  with "


def plan_of(old: str, new: str) -> str:
    """Ask what an edit of the example would do."""
    return f"kohort plan -f -{EDITED}{old} to {new}"


BEFORE = (
    ("kohort get", 1, "no cluster: give --kubeconfig, set KUBECONFIG, .* `kohort up --detach` starts a cluster"),
    ("kohort statuss llm", 2, "No such command 'statuss'. Did you mean `kohort status`?"),
    ("kohort explain", 2, "Missing argument 'NAME'"),
    ("kohort up --simulated-nodes many", 2, "'many' is not a whole number of 0 or more"),
    ("kohort up --parts apisever", 2, "there is no part 'apisever'; --parts takes any of apiserver, "),
    (
        "kohort up --simulated-capacity cpu --simulated-nodes 1",
        2,
        "--simulated-capacity: 'cpu' is not of the form name=value",
    ),
    (
        "kohort up --data-dir /proc/x",
        1,
        "cannot write to the data directory /proc/x: .*; make it writable, or choose another",
    ),
    ("kohort down", 0, "kohort is not running on "),
)
EMPTY = (
    (
        "kohort up --detach",
        1,
        "a cluster runs on .* already .*: export KUBECONFIG=.*; stop it with kohort down",
    ),
    ("kohort get", 0, "No LeaderWorkerSets in namespace default. Try: kubectl apply -f examples/llm.yaml"),
    ("kohort status llm", 1, "there is no LeaderWorkerSet llm in namespace default, nor any other; kubectl apply -f"),
    ("kohort plan -f nothing.yaml", 1, "cannot read nothing.yaml: No such file or directory"),
    ("kohort plan -f Makefile", 1, "Makefile is not YAML: line \\d+, column \\d+: mapping values are not allowed"),
    ("kohort plan -f -", 1, "standard input holds no LeaderWorkerSet or Rollout, but: Pod"),
    (plan_of("size: 4", "size: 0"), 1, "llm is refused:\n .*size must be equal or greater than 1"),
    (
        plan_of("replicas: 2", "replicas: two"),
        1,
        'is refused:\n  spec.replicas: .* must be of type integer: "string"$',
    ),
    (plan_of("replicas: 2", "replcas: 2"), 1, 'unknown field "spec.replcas"'),
    (plan_of("cpu: 100m", "cpu: lots"), 1, 'requests\\[cpu\\]: Invalid value: "lots"'),
)
STANDING = (
    ("kohort get lmm", 1, "there is no LeaderWorkerSet lmm in namespace default; there are: llm"),
    ("kohort get llm -n nowhere", 1, "no LeaderWorkerSet llm in namespace nowhere, but in default: -n default"),
    ("kohort get llm --context nowhere", 1, "no context 'nowhere' \\(there are: kohort\\)"),
    ("kohort get llm -o table", 2, "'table' is not one of 'text', 'json', 'yaml', 'wide'"),
    ("kohort get pod/llm-0", 2, "'pod/llm-0' names no workload: write the name of a LeaderWorkerSet, deployment/NAME"),
    ("kohort undo llm", 1, "has no earlier revision; kept are: 1 \\(kohort history llm\\)"),
    ("kohort undo llm --to 9", 1, "has no revision 9; kept are: 1"),
    ("kohort logs llm", 1, "pods on simulated nodes only pretend to run"),
    ("kohort logs llm --group 7", 1, "has no pods in group 7; there are: llm-0, "),
    ("kohort approve llm", 1, "no Rollout releases LeaderWorkerSet llm; only steps of Rollouts wait for approval"),
    ("kohort abort llm", 1, "has nothing under way; to return to an earlier one: kohort undo llm"),
    ("kohort resize llm", 2, "give --cpu, --memory or both; or --policy or --deadline; or --size"),
    ("kohort resize llm --size 8", 1, "would be recreated with 8 instead of 4 pods, .*; add --recreate to allow it"),
    ("kohort resize llm --cpu lots", 2, "'lots' is not an amount: write 500m, 2 or 1.5"),
    ("kohort resize llm --cpu 1", 1, "its resourceUpdatePolicy is Recreate. Choose:"),
    ("kohort resize llm --cpu 1 --container x", 1, "no template has a container x; there are: server, shard"),
    ("kohort restart llm --group 9", 1, "has no group 9; there are: 0, 1"),
    (
        plan_of("replicas: 2", "replicsa: 2"),
        1,
        'kohort: LeaderWorkerSet llm is refused:\n  unknown field "spec.replicsa"',
    ),
    (
        plan_of("size: 4", "size: 8"),
        1,
        "size: .*immutable while .*resizePolicy is None; set resizePolicy to Recreate",
    ),
    (
        plan_of("cpu: 100m", "cpu: 500"),
        3,
        "Room: step 1 does not fit, 4 of its pods find no node (not enough cpu on any)",
    ),
)
AFTER = (
    (
        "kohort get llm",
        1,
        "no answer: https://127.0.0.1:\\d+ cannot be reached; is the cluster running\\? \\(kohort up",
    ),
)


def run_command(sandbox: Sandbox, line: str) -> tuple[int, str]:
    """Exit code and output. In this process, because forty starts of an interpreter take long."""
    command, _, old_and_new = line.partition(EDITED)
    old, _, new = old_and_new.partition(" to ")
    text = (ROOT / "examples" / "llm.yaml").read_text().replace(old, new) if old else "kind: Pod"
    config = sandbox.home / ".local" / "share" / "kohort" / "kubeconfig"
    found = {**sandbox.environment, "KUBECONFIG": str(config) if config.exists() else None, "XDG_DATA_HOME": None}
    done = CliRunner().invoke(main, shlex.split(command)[1:], input=text, env=found, prog_name="kohort")
    return done.exit_code, done.output.strip()


def wrong_answers(sandbox: Sandbox, mistakes: tuple[tuple[str, int, str], ...]) -> list[str]:
    """A traceback is wrong, too."""
    wrong = []
    for line, code, words in mistakes:
        found, said = run_command(sandbox, line)
        pattern = words if "\\" in words or ".*" in words else re.escape(words)
        if found != code or not re.search(pattern, said, re.DOTALL) or "Traceback" in said:
            wrong.append(f"{line}: {found} {said}")
    return wrong


@pytest.mark.e2e
def test_mistakes_are_answered(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert wrong_answers(sandbox, BEFORE) == []
    assert sandbox.run("kohort up --simulated-nodes 4 --detach").returncode == 0
    assert wrong_answers(sandbox, EMPTY) == []
    applied = "export KUBECONFIG=~/.local/share/kohort/kubeconfig; kubectl apply -f examples/llm.yaml"
    assert sandbox.run(f"{applied} && kohort status -w llm").returncode == 0
    assert wrong_answers(sandbox, STANDING) == []
    assert sandbox.run("kohort down").returncode == 0
    assert wrong_answers(sandbox, AFTER) == []


@pytest.mark.e2e
def test_a_port_that_is_taken(sandbox: Sandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = sandbox.run(f"kohort up --port {port}")
    assert done.returncode == 1
    assert done.stderr == (
        f"kohort: port {port} on 127.0.0.1 is in use; choose another with --port, or 0 for any free one\n"
    )
