"""Paths and names of resources."""

import pytest

from kohort.kube import resources
from kohort.kube.errors import NotFound
from kohort.kube.resources import CONFIG_MAPS, NODES, PODS, ROLLOUTS, STATEFUL_SETS, Key, Resource

ALL = [one for one in vars(resources).values() if isinstance(one, Resource)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS.path(), "/api/v1/pods"),
        (PODS.path("ns"), "/api/v1/namespaces/ns/pods"),
        (PODS.path("ns", "a"), "/api/v1/namespaces/ns/pods/a"),
        (PODS.path("ns", "a", "status"), "/api/v1/namespaces/ns/pods/a/status"),
        (NODES.path("ignored", "n1"), "/api/v1/nodes/n1"),
        (STATEFUL_SETS.path("ns", "web", "scale"), "/apis/apps/v1/namespaces/ns/statefulsets/web/scale"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


@pytest.mark.parametrize("name", ["..", ".", "../../other/secrets/token", "a/status", "%2e%2e", "a%2Fstatus"])
def test_no_name_leads_to_another_object(name: str) -> None:
    with pytest.raises(NotFound, match="not found"):
        CONFIG_MAPS.path("ns", name)
    with pytest.raises(NotFound):
        CONFIG_MAPS.path(name)


def test_an_object_without_a_name_is_not_all_objects() -> None:
    assert CONFIG_MAPS.object_path("ns", "a") == CONFIG_MAPS.path("ns", "a")
    with pytest.raises(NotFound):
        CONFIG_MAPS.object_path("ns", "")


def test_names_with_and_without_a_group() -> None:
    assert (PODS.api_version, PODS.qualified) == ("v1", "pods")
    assert (STATEFUL_SETS.api_version, STATEFUL_SETS.qualified) == ("apps/v1", "statefulsets.apps")
    assert ROLLOUTS.qualified == "rollouts.rollouts.kruise.io"


def test_no_two_constants_name_the_same_endpoint() -> None:
    paths = [one.path() for one in ALL]
    assert len(paths) == len(set(paths))


@pytest.mark.parametrize("resource", ALL, ids=lambda one: one.qualified)
def test_plurals_are_lower_case_and_kinds_are_not(resource: Resource) -> None:
    assert resource.plural == resource.plural.lower()
    assert resource.kind[0].isupper()


def test_keys_are_written_with_their_namespace_if_they_have_one() -> None:
    assert (str(Key("ns", "a")), str(Key("", "n1"))) == ("ns/a", "n1")


def test_keys_sort_by_namespace_then_by_name() -> None:
    keys = [Key("b", "a"), Key("a", "z"), Key("", "m"), Key("a", "b")]
    assert sorted(keys) == [Key("", "m"), Key("a", "b"), Key("a", "z"), Key("b", "a")]


def test_equal_resources_are_equal_keys() -> None:
    assert Resource("", "v1", "configmaps", "ConfigMap") == CONFIG_MAPS
    assert {CONFIG_MAPS: 1}[Resource("", "v1", "configmaps", "ConfigMap")] == 1
