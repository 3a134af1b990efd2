"""What a container gets for its devices."""

from kohort.node.devices.container_use import DeviceUse, merged
from kohort.node.devices.messages import CdiDevice, ContainerAllocation, PluginDevice, PluginMount
from kohort.node.runtimes.interface import Device, Mount

GPU = ContainerAllocation(
    {"VISIBLE": "0"},
    (PluginMount("/usr/lib/gpu", "/opt/gpu", True),),
    (PluginDevice("/dev/gpu0", "/dev/gpu0", "rw"), PluginDevice("/dev/ctl", "/dev/ctl", "")),
    {"gpu": "0"},
    (CdiDevice("example.com/gpu=0"),),
)
NIC = ContainerAllocation(
    {"NIC": "1"}, (), (PluginDevice("/dev/ctl", "/dev/ctl", "rw"),), {"nic": "1"}, (CdiDevice("example.com/nic=1"),)
)


def test_several_kinds_of_devices_are_put_together() -> None:
    assert merged([GPU, NIC]) == DeviceUse(
        {"VISIBLE": "0", "NIC": "1"},
        (Mount("/opt/gpu", "/usr/lib/gpu", True),),
        (Device("/dev/gpu0", "/dev/gpu0", "rw"), Device("/dev/ctl", "/dev/ctl", "rwm")),
        {"gpu": "0", "nic": "1"},
        ("example.com/gpu=0", "example.com/nic=1"),
    )


def test_processes_with_a_root_of_their_own_get_device_files_as_mounts() -> None:
    targets = [each.target for each in merged([GPU]).mounts_of_process("/images/x")]
    assert targets == ["/usr/lib/gpu", "/dev/gpu0", "/dev/ctl"]


def test_processes_of_the_machine_have_its_device_files_already() -> None:
    assert [each.target for each in merged([GPU]).mounts_of_process("")] == ["/usr/lib/gpu"]
