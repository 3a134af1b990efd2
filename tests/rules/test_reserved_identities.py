"""Names that no certificate on request may carry."""

import pytest

from kohort.rules.reserved_identities import reserved_subject


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
