"""The dashboard and the alert rules ask for series that exist."""

import json
import re
from collections.abc import Iterator

import pytest
import yaml
from tests.docs.pages import ROOT
from tools.reference.metrics import PARTS, families

FOLDER = ROOT / "deploy" / "monitoring"
_NAME = re.compile(
    r"\b((?:kohort|rollout|workqueue|controller_runtime|rest_client|kubelet|scheduler|apiserver)_[a-z_]+)\b"
)


def exposed() -> dict[str, tuple[str, ...]]:
    """Series as they are scraped, and their labels."""
    found: dict[str, tuple[str, ...]] = {}
    for _, register in PARTS.values():
        for name, kind, labels, _ in families(register):
            endings = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
            found |= {f"{name}{ending}": labels for ending in endings}
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in json.loads((FOLDER / "dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for rule in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_series_exist(title: str, expression: str) -> None:
    names = _NAME.findall(expression)
    assert names, "an expression without a series of ours measures nothing of ours"
    assert [name for name in names if name not in exposed()] == []


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_labels_exist(title: str, expression: str) -> None:
    (name, *_) = _NAME.findall(expression)
    grouped = re.findall(r"by \(([^)]*)\)", expression)
    asked = {label.strip() for text in grouped for label in text.split(",")} - {"le"}
    assert asked <= set(exposed()[name])


def test_every_alert_says_what_to_do() -> None:
    for rule in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]:
        assert rule["annotations"]["action"]
        labels = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert labels <= set(exposed()[_NAME.findall(rule["expr"])[0]])


def test_every_alert_is_on_the_page() -> None:
    page = (ROOT / "docs" / "how-to" / "monitor.md").read_text()
    rules = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in page] == []


def test_there_are_enough_series_to_run_a_service_by() -> None:
    """Thirty that are about groups, releases, requests and resizes; queues and latencies come on top."""
    domain = ("Groups", "Rollouts", "Webhooks", "Gateway", "Node")
    shared = {name for name, *_ in families(PARTS["Queues, reconciles, requests"][1])}
    own = {name for part in domain for name, *_ in families(PARTS[part][1])} - shared
    assert len(own) >= 30
    assert {"workqueue_queue_duration_seconds", "rest_client_request_duration_seconds"} <= shared


def test_every_subject_is_on_the_board() -> None:
    """Groups, rolls, restarts, rollouts, steps, traffic, resizes, queue and API latency."""
    asked = " ".join(expression for _, expression in expressions())
    for word in (
        "kohort_groups_ready",
        "kohort_group_rolls_total",
        "kohort_group_restarts_total",
        "rollout_outcomes_total",
        "rollout_step_index",
        "rollout_traffic_weight_percent",
        "kubelet_pod_pending_resizes",
        "workqueue_queue_duration_seconds",
        "rest_client_request_duration_seconds",
    ):
        assert word in asked
