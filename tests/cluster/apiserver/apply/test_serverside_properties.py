"""What holds after any sequence of applies by two managers."""

from hypothesis import given
from hypothesis import strategies as st
from tests.cluster.apiserver.apply.appliers import deploy, workload

from kohort.cluster.apiserver.apply.managed import is_noop
from kohort.objects.json_types import JsonObject

data = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), min_size=1, max_size=3)
env = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("AB")}, optional={"value": st.sampled_from("12")}),
    min_size=1,
    max_size=2,
    unique_by=lambda variable: variable["name"],
)
containers = st.lists(
    st.fixed_dictionaries({"name": st.sampled_from("cde")}, optional={"image": st.sampled_from("ij"), "env": env}),
    min_size=1,
    max_size=3,
    unique_by=lambda container: container["name"],
)
intents = st.builds(
    lambda items, labels, replicas: {
        **workload(replicas=replicas),
        "metadata": {"name": "w", "labels": labels},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": items}}},
    },
    containers,
    data,
    st.integers(0, 3),
)
histories = st.lists(st.tuples(intents, st.sampled_from(["m1", "m2"])), min_size=1, max_size=4)


def history(steps: list[tuple[JsonObject, str]]) -> JsonObject:
    live: JsonObject | None = None
    for intent, manager in steps:
        live = deploy(live, intent, manager, force=True)
    assert live is not None
    return live


@given(histories)
def test_applying_the_last_intent_again_is_a_no_op(steps: list[tuple[JsonObject, str]]) -> None:
    live = history(steps)
    intent, manager = steps[-1]
    assert is_noop(live, deploy(live, intent, manager, force=False))


@given(histories)
def test_the_outcome_says_everything_that_the_last_intent_says(steps: list[tuple[JsonObject, str]]) -> None:
    live, (intent, _) = history(steps), steps[-1]
    assert live["spec"]["replicas"] == intent["spec"]["replicas"]
    assert (live["metadata"].get("labels") or {}).items() >= intent["metadata"]["labels"].items()
    found = {c["name"]: c for c in live["spec"]["template"]["spec"].get("containers") or []}
    for container in intent["spec"]["template"]["spec"]["containers"]:
        assert found[container["name"]].items() >= {k: v for k, v in container.items() if k != "env"}.items()


@given(histories)
def test_a_lone_applier_gets_exactly_its_intent(steps: list[tuple[JsonObject, str]]) -> None:
    live = history([(intent, "m1") for intent, _ in steps])
    intent = steps[-1][0]
    assert (live["metadata"].get("labels") or {}) == intent["metadata"]["labels"]
    assert sorted(c["name"] for c in live["spec"]["template"]["spec"].get("containers") or []) == sorted(
        c["name"] for c in intent["spec"]["template"]["spec"]["containers"]
    )
