"""Which signal asks a container to end."""

import signal

import pytest

from kohort.node.runtimes.cri.messages import SIGNAL_NUMBERS
from kohort.node.stop_signal import signal_number, stop_signal_name
from kohort.objects.node_pods import Lifecycle, NodeContainer

SILENT = NodeContainer("c")
NAMING = NodeContainer("c", lifecycle=Lifecycle(stop_signal="SIGUSR1"))
HOOKED = NodeContainer("c", lifecycle=Lifecycle())


@pytest.mark.parametrize(
    ("container", "of_image", "name"),
    [
        (SILENT, "", ""),
        (HOOKED, "", ""),
        (SILENT, "SIGQUIT", "SIGQUIT"),
        (HOOKED, "SIGQUIT", "SIGQUIT"),
        (NAMING, "SIGQUIT", "SIGUSR1"),
        (NAMING, "", "SIGUSR1"),
    ],
)
def test_the_container_decides_then_its_image(container: NodeContainer, of_image: str, name: str) -> None:
    assert stop_signal_name(container, of_image) == name


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("", 15),
        ("SIGTERM", 15),
        ("SIGKILL", 9),
        ("SIGWINCH", 28),
        ("SIGRTMIN", 34),
        ("SIGRTMIN+3", 37),
        ("SIGRTMIN+15", 49),
        ("SIGRTMAX-14", 50),
        ("SIGRTMAX-1", 63),
        ("SIGRTMAX", 64),
        ("RTMIN+3", 37),
        ("quit", 3),
        ("3", 3),
        ("37", 37),
    ],
)
def test_names_and_numbers_of_signals(name: str, number: int) -> None:
    assert signal_number(name) == number


@pytest.mark.parametrize(
    "name", ["SIGNONSENSE", "0", "65", "-1", "SIGRTMIN+31", "SIGRTMAX-31", "SIGRTMIN-1", "SIG_IGN", "SIG", "٣"]
)
def test_what_is_no_signal_does_not_keep_a_container_from_being_asked(name: str) -> None:
    assert signal_number(name) == signal.SIGTERM


def test_every_signal_that_the_interface_of_runtimes_has_is_known() -> None:
    """Each name means one signal, whichever runtime the node uses."""
    aliases = {"SIGCLD": "SIGCHLD", "SIGIOT": "SIGABRT", "SIGPOLL": "SIGIO"}
    numbers = {name: signal_number(name) for name in SIGNAL_NUMBERS if name not in aliases}
    assert len(set(numbers.values())) == len(numbers)
    assert [name for name, number in numbers.items() if number == signal.SIGTERM] == ["SIGTERM"]
    assert all(signal_number(name) == numbers[same] for name, same in aliases.items())
