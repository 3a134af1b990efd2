"""The environment of containers."""

import os
import re

import pytest
from tests.builders import pod as build
from tests.builders import service

from kohort.node.container_environment import (
    ConfigProblem,
    command_line,
    env_file_value,
    environment,
    expanded,
    field_value,
    resource_value,
    service_environment,
)
from kohort.objects.core import Service
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodePod
from kohort.objects.quantity import Quantity
from kohort.objects.volumes import ObjectFieldSelector, ResourceFieldSelector

CONFIG = {"A": "1", "no=name": "x"}
DIGITS = {"1-first": "one", "2nd.key": "two"}
BINARY = {"NUL": "a\0b", "LATIN": os.fsdecode(b"\xe9")}
FACTS = {"status.podIP": "10.0.0.1", "status.hostIP": "10.0.0.2"}
SIZE = {"cpu": Quantity.parse("4"), "memory": Quantity.parse("1Gi")}


def made(**container: object) -> NodePod:
    one: JsonObject = {"name": "c", "image": "host", **container}
    document = build("p").namespaced("ns").labels(app="web").annotations({"note": 'a"b'}).containers(one)
    return document.as_view(NodePod)


def env_of(pod: NodePod) -> dict[str, str]:
    assert pod.spec.containers is not None
    data = {("configmap", "cfg"): CONFIG, ("configmap", "digits"): DIGITS, ("secret", "binary"): BINARY}
    found = environment(
        pod, pod.spec.containers[0], lambda kind, name: data.get((kind, name)), {"SVC": "s"}, FACTS, SIZE
    )
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$(A)$(A)", "11"), ("$A", "$A"), ("100$", "100$")],
)
def test_references_are_replaced_by_what_is_known(text: str, expected: str) -> None:
    assert expanded(text, {"A": "1"}) == expected


def test_later_entries_win_and_see_the_ones_before_them() -> None:
    env = [{"name": "B", "value": "$(A)-$(SVC)"}, {"name": "A", "value": "2"}, {"name": "C", "value": "$(A)"}]
    found = env_of(
        made(envFrom=[{"prefix": "P_", "configMapRef": {"name": "cfg"}}, {"configMapRef": {"name": "cfg"}}], env=env)
    )
    assert found == {"SVC": "s", "P_A": "1", "A": "2", "B": "1-s", "C": "2"}


def test_names_may_begin_with_a_digit_and_have_more_than_letters() -> None:
    found = env_of(
        made(envFrom=[{"prefix": "3_", "configMapRef": {"name": "digits"}}], env=[{"name": "4", "value": "x"}])
    )
    assert found == {"SVC": "s", "3_1-first": "one", "3_2nd.key": "two", "4": "x"}


def test_values_come_from_fields_resources_and_keys() -> None:
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "NONE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}},
        {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "A"}}},
        {"name": "OPT", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "A", "optional": True}}},
    ]
    found = env_of(made(env=env, resources={"limits": {"cpu": "1500m"}}))
    assert found == {"SVC": "s", "IP": "10.0.0.1", "APP": "web", "NONE": "", "CPU": "2", "KEY": "1"}


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"envFrom": [{"configMapRef": {"name": "none"}}]}, 'configmap "none" not found'),
        ({"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}, 'secret "s" not found'),
        (
            {"env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "k"}}}]},
            "couldn't find key k in ConfigMap ns/cfg",
        ),
        ({"env": [{"name": "X", "value": "a\0b"}]}, 'variable "X" holds a NUL byte'),
        ({"envFrom": [{"secretRef": {"name": "binary"}}]}, 'variable "NUL" holds a NUL byte'),
        (
            {"env": [{"name": "Y", "valueFrom": {"secretKeyRef": {"name": "binary", "key": "LATIN"}}}]},
            'variable "Y" holds bytes that are not text',
        ),
    ],
)
def test_what_is_missing_or_impossible_is_named(container: JsonObject, words: str) -> None:
    with pytest.raises(ConfigProblem, match=words):
        env_of(made(**container))


def test_command_and_arguments_are_expanded() -> None:
    pod = made(command=["run", "$(A)"], args=["--x=$(B)"])
    assert pod.spec.containers is not None
    assert command_line(pod.spec.containers[0], {"A": "1"}) == ("run", "1", "--x=$(B)")


def test_maps_are_written_as_lines_with_escapes() -> None:
    selector = ObjectFieldSelector("metadata.annotations")
    assert field_value(made(), selector, FACTS) == 'note="a\\"b"'


@pytest.mark.parametrize(
    ("resource", "divisor", "expected"),
    [
        ("limits.memory", "1Mi", "64"),
        ("limits.cpu", "1m", "4000"),
        ("requests.memory", "1", "33554432"),
        ("requests.cpu", "1", "0"),
    ],
)
def test_figures_in_units_rounded_up_and_the_nodes_size_for_no_limit(
    resource: str, divisor: str, expected: str
) -> None:
    pod = made(resources={"limits": {"memory": "64Mi"}, "requests": {"memory": "32Mi"}})
    assert pod.spec.containers is not None
    selector = ResourceFieldSelector(resource, divisor=divisor)
    assert resource_value(pod, pod.spec.containers[0], selector, SIZE) == expected


def test_a_limit_of_the_pod_counts_as_the_containers() -> None:
    pod = build("p").containers({"name": "c"}).but("spec.resources", {"limits": {"cpu": "2"}}).as_view(NodePod)
    assert pod.spec.containers is not None
    assert resource_value(pod, pod.spec.containers[0], ResourceFieldSelector("limits.cpu"), SIZE) == "2"


def test_services_are_announced_and_headless_ones_are_not() -> None:
    web = service("my-web").but("spec.clusterIP", "10.96.0.5").but("spec.ports", [{"port": 80, "name": "http"}])
    none = service("none").but("spec.clusterIP", "None").but("spec.ports", [{"port": 80}])
    found = service_environment([web.as_view(Service), none.as_view(Service)], ("127.0.0.1", "6443"))
    assert found["MY_WEB_SERVICE_HOST"] == "10.96.0.5" and found["MY_WEB_SERVICE_PORT_HTTP"] == "80"
    assert found["MY_WEB_PORT_80_TCP"] == "tcp://10.96.0.5:80"
    assert found["KUBERNETES_SERVICE_PORT"] == "6443" and not any(name.startswith("NONE") for name in found)


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("A='1'\nB='2'", "B", "2"),
        ("  A='with # and = inside' # comment", "A", "with # and = inside"),
        ("# A='no'\n\nA='x\ny'\nB='z'", "A", "x\ny"),
        ("A= 'x'", "A", ""),
        ("A='x'", "B", ""),
        ("A='x'\nnonsense", "A", "x"),
    ],
)
def test_variables_of_a_file(text: str, key: str, expected: str) -> None:
    assert env_file_value(text, key) == expected


@pytest.mark.parametrize("text", ["A", "='x'", "A ='x'", "A=x", 'A="x"', "A='x", "A='x' y"])
def test_a_file_that_is_no_list_of_variables(text: str) -> None:
    with pytest.raises(ConfigProblem, match="couldn't parse env file"):
        env_file_value(text, "B")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"volumeName": "v", "path": "e", "key": "A"}, {"X": "1"}),
        ({"volumeName": "v", "path": "e", "key": "B", "optional": True}, {}),
        ({"volumeName": "v", "path": "none", "key": "A", "optional": True}, {}),
        ({"volumeName": "v", "path": "e", "key": "B"}, 'environment variable key "B" not found in file "e"'),
        ({"volumeName": "v", "path": "none", "key": "A"}, 'key "A" not found in file "none" of volume "v"'),
    ],
)
def test_an_environment_from_a_file(reference: JsonObject, expected: dict[str, str] | str) -> None:
    entry = {"name": "X", "valueFrom": {"fileKeyRef": reference}}
    pod = build("p").containers({"name": "c", "env": [entry]}).as_view(NodePod)
    (container,) = pod.spec.containers or ()

    def found() -> dict[str, str]:
        files = {("v", "e"): "A='1'"}
        return environment(pod, container, lambda kind, name: None, {}, {}, {}, lambda *place: files.get(place))

    if isinstance(expected, str):
        with pytest.raises(ConfigProblem, match=re.escape(expected)):
            found()
    else:
        assert found() == expected


def test_references_that_multiply_are_refused() -> None:
    env = [{"name": "V0", "value": "x" * 1000}]
    env += [{"name": f"V{number}", "value": f"$(V{number - 1})" * 10} for number in range(1, 20)]
    with pytest.raises(ConfigProblem, match="more than 8 MiB"):
        env_of(made(env=env))


def test_a_command_that_multiplies_a_variable_is_refused() -> None:
    pod = made(command=["echo"], args=["$(V)"] * 100_000)
    assert pod.spec.containers is not None
    with pytest.raises(ConfigProblem, match="the command has more than 8 MiB"):
        command_line(pod.spec.containers[0], {"V": "x" * 100_000})


def test_a_configmap_that_is_named_again_and_again_is_refused() -> None:
    sources = [{"prefix": f"P{number}_", "configMapRef": {"name": "large"}} for number in range(100)]
    pod = made(envFrom=sources)
    assert pod.spec.containers is not None
    with pytest.raises(ConfigProblem, match="the environment has more than 8 MiB"):
        environment(pod, pod.spec.containers[0], lambda kind, name: {"KEY": "x" * 100_000}, {}, FACTS, SIZE)
