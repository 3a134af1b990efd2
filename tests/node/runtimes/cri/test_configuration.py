from pathlib import Path

import msgspec
import pytest

from kohort.node.grpc.codec import encode
from kohort.node.grpc.http2 import LARGEST
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.configuration import (
    NODE_LABEL,
    container_config,
    container_key,
    linux_resources,
    owner_label,
    runtime_info,
    sandbox_config,
)
from kohort.node.runtimes.interface import ContainerKey, ContainerSecurity, Launch, Mount, PodSandboxSpec
from kohort.resources import CgroupValues
from kohort.resources.cgroups import cpu_shares, cpu_weight

POD = PodSandboxSpec(
    "u1", "web", "default", "web", {"app": "web"}, {"note": "x"}, "/logs/u1", "/sys/fs/cgroup/kohort/podu1"
)
LAUNCH = Launch(
    "u1_c_2", ("serve",), {"A": "1", "B": "\udcff"}, log="/logs/u1/c/2.log", image="sha256:1", image_name="web:1"
)
KEY = ContainerKey("u1", "c", 2)


def config(launch: Launch = LAUNCH, pod: PodSandboxSpec = POD, target: str = "") -> cri.ContainerConfig:
    return container_config(launch, pod, "node-1", KEY, target)


def security(launch: Launch = LAUNCH, pod: PodSandboxSpec = POD) -> cri.LinuxContainerSecurityContext:
    linux = config(launch, pod).linux
    assert linux is not None and linux.security_context is not None
    return linux.security_context


def namespaces(pod: PodSandboxSpec) -> cri.NamespaceOption:
    linux = sandbox_config(pod, "node-1", 0, "/sys/fs/cgroup").linux
    assert linux is not None and linux.security_context is not None
    found = linux.security_context.namespace_options
    assert found is not None
    assert found == security(pod=pod).namespace_options, "sandbox and containers must have the same"
    return found


def test_a_sandbox_is_named_and_labelled_as_the_pod() -> None:
    found = sandbox_config(POD, "node-1", 3, "/sys/fs/cgroup")
    assert found.metadata == cri.PodSandboxMetadata("web", "u1", "default", 3)
    assert found.linux is not None and found.linux.cgroup_parent == "/kohort/podu1"
    assert found.labels["app"] == "web" and found.labels[NODE_LABEL] == "node-1"
    assert (found.log_directory, found.hostname) == ("/logs/u1", "web")


def test_labels_of_the_pod_do_not_change_whose_it_is() -> None:
    pod = msgspec.structs.replace(POD, labels={NODE_LABEL: "other", "io.kubernetes.pod.uid": "u2"})
    found = sandbox_config(pod, "node-1", 0, "").labels
    assert (found[NODE_LABEL], found["io.kubernetes.pod.uid"]) == ("node-1", "u1")


def test_all_pods_of_a_node_fit_into_one_list() -> None:
    """Whatever labels and annotations a user gives to them."""
    labels = {f"{number:063}.{'a' * 180}/{number:063}": "v" * 63 for number in range(3000)}
    annotations = {"small": "kept", "large": "x" * (256 << 10)}
    pod = msgspec.structs.replace(POD, labels={"app": "web", **labels}, annotations=annotations)
    found = sandbox_config(pod, "node-1", 0, "")
    assert found.labels["app"] == "web" and found.annotations == {"small": "kept"}
    sandbox = cri.PodSandbox("id", found.metadata, labels=found.labels, annotations=found.annotations)
    assert len(encode(cri.ListPodSandboxResponse((sandbox,) * 500))) < LARGEST


def test_labels_and_annotations_of_usual_size_are_complete() -> None:
    pod = msgspec.structs.replace(POD, labels={"b": "1", "a": "2"}, annotations={"n": "x" * 10_000, "m": ""})
    found = sandbox_config(pod, "node-1", 0, "")
    assert list(found.labels)[:2] == ["b", "a"] and found.annotations == pod.annotations


@pytest.mark.parametrize(
    ("changes", "modes"),
    [
        ({}, (0, 1, 0)),
        ({"host_network": True}, (2, 1, 0)),
        ({"host_pid": True}, (0, 2, 0)),
        ({"host_ipc": True}, (0, 1, 2)),
        ({"shared_processes": True}, (0, 0, 0)),
        ({"shared_processes": True, "host_pid": True}, (0, 2, 0)),
    ],
)
def test_namespaces(changes: dict[str, bool], modes: tuple[int, int, int]) -> None:
    found = namespaces(msgspec.structs.replace(POD, **changes))
    assert (found.network, found.pid, found.ipc) == modes


def test_a_container_with_a_target_sees_its_processes() -> None:
    linux = config(target="abc").linux
    assert linux is not None and linux.security_context is not None
    found = linux.security_context.namespace_options
    assert found is not None and (found.pid, found.target_id) == (cri.NamespaceMode.TARGET, "abc")


def test_a_container_is_found_again_by_what_it_was_given() -> None:
    found = config()
    assert container_key(found.labels, found.annotations) == KEY
    assert container_key({}, {}) is None and container_key(found.labels, {}) is None
    assert found.log_path == "c/2.log"
    assert found.image == cri.ImageSpec(image="sha256:1", user_specified_image="web:1")


def test_the_environment_is_bytes_in_order() -> None:
    assert config().envs == (cri.KeyValue("A", b"1"), cri.KeyValue("B", b"\xff"))


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"run_as_user": None, "run_as_username": "", "privileged": False, "no_new_privs": False}),
        ({"uid": 0}, {"run_as_user": cri.Int64Value(0)}),
        ({"uid": 5, "gid": 6, "groups": (7,)}, {"run_as_group": cri.Int64Value(6), "supplemental_groups": (7,)}),
        ({"gid": 6}, {"run_as_group": None}),
        ({"user_name": "nginx", "gid": 6}, {"run_as_username": "nginx", "run_as_group": cri.Int64Value(6)}),
        ({"read_only_root": True}, {"readonly_rootfs": True}),
        ({"no_new_privileges": True}, {"no_new_privs": True}),
        ({"seccomp": "RuntimeDefault"}, {"seccomp": cri.SecurityProfile(0)}),
        ({"seccomp": "/profiles/a.json"}, {"seccomp": cri.SecurityProfile(2, "/profiles/a.json")}),
        ({"apparmor": "mine"}, {"apparmor": cri.SecurityProfile(2, "mine"), "apparmor_profile": "localhost/mine"}),
        ({"apparmor": "RuntimeDefault"}, {"apparmor_profile": "runtime/default"}),
        ({"unmasked_proc": True}, {"masked_paths": (), "readonly_paths": ()}),
        ({"privileged": True}, {"masked_paths": (), "privileged": True}),
        ({"added_capabilities": ("NET_ADMIN",)}, {"capabilities": cri.Capability(("NET_ADMIN",), ())}),
        ({"selinux": {"level": "s0"}}, {"selinux_options": cri.SELinuxOption(level="s0")}),
    ],
)
def test_rights(own: dict[str, object], expected: dict[str, object]) -> None:
    found = security(msgspec.structs.replace(LAUNCH, security=msgspec.convert(own, ContainerSecurity)))
    assert {name: getattr(found, name) for name in expected} == expected


def test_what_is_hidden_is_always_named() -> None:
    """An empty list means nothing is hidden, not the runtime's default."""
    assert "/proc/kcore" in security().masked_paths and "/proc/sys" in security().readonly_paths


@pytest.mark.parametrize(("name", "mode"), [("", 0), ("None", 0), ("HostToContainer", 1), ("Bidirectional", 2)])
def test_propagation_of_mounts(name: str, mode: int) -> None:
    launch = msgspec.structs.replace(LAUNCH, mounts=(Mount("/a", "/b", True, propagation=name),))
    assert config(launch).mounts == (cri.Mount("/b", "/a", True, propagation=mode),)


def test_stop_signals_have_the_numbers_of_the_interface() -> None:
    numbers = {"": 0, "SIGTERM": 23, "SIGQUIT": 18, "SIGUSR1": 29, "SIGRTMIN+3": 38, "SIGRTMAX": 65, "SIGNONSENSE": 0}
    for name, number in numbers.items():
        assert config(msgspec.structs.replace(LAUNCH, stop_signal=name)).stop_signal == number


def test_limits_are_sent_together_and_their_absence_too() -> None:
    limited = linux_resources(CgroupValues(17, 20000, 100000, 64 << 20))
    assert (limited.cpu_quota, limited.cpu_period, limited.memory_limit_in_bytes) == (20000, 100000, 64 << 20)
    assert limited.memory_swap_limit_in_bytes == 64 << 20, "no swap"
    assert limited.unified == {"cpu.weight": "17", "memory.high": "max"}
    unlimited = linux_resources(CgroupValues(1))
    assert (unlimited.cpu_quota, unlimited.memory_limit_in_bytes) == (-1, -1)


@pytest.mark.parametrize("milli", [0, 2, 10, 100, 250, 1000, 7500, 64000, 300000])
def test_shares_and_weight_mean_the_same(milli: int) -> None:
    """A runtime without cgroup v2 files goes by the shares."""
    found = linux_resources(CgroupValues(cpu_weight(milli)))
    assert cpu_weight(milli) == int(found.unified["cpu.weight"])
    assert found.cpu_shares == pytest.approx(cpu_shares(milli), rel=0.15, abs=5)


def test_further_files_of_the_cgroup_are_sent_at_the_start() -> None:
    launch = msgspec.structs.replace(
        LAUNCH, resources=CgroupValues(1), cgroup_files={"memory.oom.group": "1"}, oom_score_adj=-997
    )
    linux = config(launch).linux
    assert linux is not None and linux.resources is not None
    assert linux.resources.unified["memory.oom.group"] == "1" and linux.resources.oom_score_adj == -997


def test_a_new_container_without_a_memory_limit_has_no_limit_in_its_configuration() -> None:
    """CRI-O refuses -1: too small a limit."""
    linux = config(msgspec.structs.replace(LAUNCH, resources=CgroupValues(1))).linux
    assert linux is not None and linux.resources is not None
    assert (linux.resources.memory_limit_in_bytes, linux.resources.memory_swap_limit_in_bytes) == (0, 0)


def test_without_limits_nothing_is_limited() -> None:
    linux = config().linux
    assert linux is not None and linux.resources == cri.LinuxContainerResources()


def test_agents_with_the_same_node_name_are_told_apart(tmp_path: Path) -> None:
    assert owner_label("n", tmp_path / "a") != owner_label("n", tmp_path / "b")
    assert owner_label("n", tmp_path / "a") == owner_label("n", tmp_path / "b" / ".." / "a")


def test_what_a_runtime_says_beyond_the_interface_may_be_absent_or_nonsense() -> None:
    assert runtime_info({"info": '{"pid": 7, "config": {"tty": true}}'}).pid == 7
    assert runtime_info({"info": '{"pid": 7, "config": {"tty": true}}'}).tty
    assert runtime_info({"info": '{"config": {"stdin": true}}'}).stdin
    for text in ("", "[]", '{"pid": "x"}', "{"):
        assert runtime_info({"info": text}).pid == 0
    assert runtime_info({}).pid == 0
    spec = """{"process": {"terminal": true}, "annotations": {"io.kubernetes.cri-o.Stdin": "true"},
        "linux": {"cgroupsPath": "/kohort/podu1/crio-1f0c"}}"""
    crio = runtime_info({"info": f'{{"pid": 9, "runtimeSpec": {spec}}}'})
    assert (crio.pid, crio.stdin, crio.tty, crio.cgroup_name) == (9, True, True, "crio-1f0c")
