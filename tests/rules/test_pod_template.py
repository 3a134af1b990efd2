"""When Kubernetes takes two pod templates for the same."""

import pytest

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.pod_template import TEMPLATE_HASH, pod_template_content, same_pod_template


def template(labels: JsonObject | None = None, **container: Json) -> JsonObject:
    return {
        "metadata": {"labels": {"app": "web"} if labels is None else labels},
        "spec": {"containers": [{"name": "main", "image": "web:1", **container}]},
    }


SAME = {
    "hash on one side": (template({"app": "web", TEMPLATE_HASH: "a"}), template()),
    "hash on both sides": (template({"app": "web", TEMPLATE_HASH: "a"}), template({"app": "web", TEMPLATE_HASH: "b"})),
    "only the hash": (template({TEMPLATE_HASH: "a"}), template({})),
    "quantities": (
        template(resources={"limits": {"cpu": "1000m"}}),
        template(resources={"limits": {"cpu": "1"}}),
    ),
    "left out by Go": (template(tty=False, env=[], resources={}), template()),
    "null": ({**template(), "metadata": {"creationTimestamp": None, "labels": {"app": "web"}}}, template()),
}
DIFFERENT = {
    "image": (template(image="web:2"), template()),
    "label": (template({"app": "web", "x": "y"}), template()),
    "annotation": ({**template(), "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}}}, template()),
    "explicit zero of a pointer": (template(securityContext={"runAsUser": 0}), template(securityContext={})),
}


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=list(SAME))
def test_same(one: JsonObject, other: JsonObject) -> None:
    assert same_pod_template(one, other)
    assert same_pod_template(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=list(DIFFERENT))
def test_different(one: JsonObject, other: JsonObject) -> None:
    assert not same_pod_template(one, other)
    assert not same_pod_template(other, one)


def test_named_labels_and_annotations_do_not_count() -> None:
    marked = {
        **template(),
        "metadata": {"labels": {"app": "web", "batch": "1"}, "annotations": {"note": "x", "a": "b"}},
    }
    content = pod_template_content(marked, without_labels=["batch"], without_annotations=["note"])
    assert content["metadata"] == {"labels": {"app": "web"}, "annotations": {"a": "b"}}


def test_the_template_itself_is_not_changed() -> None:
    marked = template({"app": "web", TEMPLATE_HASH: "a"})
    pod_template_content(marked, without_labels=["app"])
    assert marked == template({"app": "web", TEMPLATE_HASH: "a"})


def test_a_template_without_metadata_is_one_with_empty_metadata() -> None:
    bare = {"spec": template()["spec"]}
    assert same_pod_template(bare, template({}))
    assert same_pod_template({**bare, "metadata": None}, bare)
