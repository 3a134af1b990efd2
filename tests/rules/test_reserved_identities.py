"""Names that no certificate on request may carry."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.rules.reserved_identities import is_reserved_group, is_reserved_user, reserved_subject


@pytest.mark.parametrize(
    ("users", "groups", "found"),
    [
        (["jane"], ["dev"], ""),
        (["jane"], [], ""),
        (["systematic"], ["system-admins"], ""),
        (["kube-apiserver"], [], 'common name "kube-apiserver"'),
        (["kube-apiserver-kubelet-client"], [], 'common name "kube-apiserver-kubelet-client"'),
        (["system:kube-scheduler"], [], 'common name "system:kube-scheduler"'),
        (["system:serviceaccount:kube-system:default"], [], 'common name "system:serviceaccount:kube-system:default"'),
        (["jane", "system:apiserver"], [], 'common name "system:apiserver"'),
        (["jane"], ["dev", "system:masters"], 'organization "system:masters"'),
        (["jane"], ["kubeadm:cluster-admins"], 'organization "kubeadm:cluster-admins"'),
        (["jane"], ["system:nodes"], 'organization "system:nodes"'),
    ],
)
def test_reserved_names_are_found(users: list[str], groups: list[str], found: str) -> None:
    assert reserved_subject(users, groups) == found


@pytest.mark.parametrize(
    ("name", "user", "group"),
    [
        ("system:masters", True, True),
        ("system:anything", True, True),
        ("kubeadm:cluster-admins", False, True),
        ("kubernetes-admin", True, False),
        ("kube-apiserver", True, False),
        ("System:masters", False, False),
        ("jane", False, False),
        ("", False, False),
    ],
)
def test_users_and_groups_have_reserved_names_of_their_own(name: str, user: bool, group: bool) -> None:
    assert (is_reserved_user(name), is_reserved_group(name)) == (user, group)


def test_the_first_user_is_named_before_any_group() -> None:
    assert reserved_subject(["jane", "system:a", "system:b"], ["system:masters"]) == 'common name "system:a"'


@given(st.text(max_size=20))
def test_every_name_with_the_prefix_of_the_system_is_reserved(rest: str) -> None:
    assert is_reserved_user(f"system:{rest}") and is_reserved_group(f"system:{rest}")
    assert reserved_subject([], [f"system:{rest}"]) != ""
