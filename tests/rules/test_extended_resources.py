"""Names of resources that vendors define."""

import pytest

from kohort.rules.extended_resources import is_extended, is_native


@pytest.mark.parametrize(
    ("name", "extended", "native"),
    [
        ("cpu", False, True),
        ("hugepages-2Mi", False, True),
        ("kubernetes.io/batch-cpu", False, True),
        ("pool.kubernetes.io/gpu", False, True),
        ("nvidia.com/gpu", True, False),
        ("nvidia.com/mig-1g.5gb", True, False),
        ("requests.nvidia.com/gpu", False, False),
        ("nvidia.com/", False, False),
        ("/gpu", False, False),
        ("nvidia.com/gpu/0", False, False),
        (f"nvidia.com/{'g' * 64}", False, False),
    ],
)
def test_the_table(name: str, extended: bool, native: bool) -> None:
    assert (is_extended(name), is_native(name)) == (extended, native)
