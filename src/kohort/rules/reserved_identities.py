"""Which identities belong to the control plane, and may therefore not be had by asking for a certificate.

A client certificate says who its holder is: the common name is the user, the organizations are its groups. Names that
begin with `system:` are those of components, service accounts and nodes; members of the groups in
`ADMINISTRATORS` may do everything.
"""

from collections.abc import Iterable
from typing import Final

ADMINISTRATORS: Final = frozenset({"system:masters", "kubeadm:cluster-admins"})
"""Groups whose members may do everything: that of Kubernetes, and the one that kubeadm gives to the API server."""
COMPONENTS: Final = frozenset({"kube-apiserver", "kube-apiserver-kubelet-client", "kubernetes-admin"})
"""Names of users that others take for a part of the control plane, or for its owner."""
RESERVED_PREFIX: Final = "system:"


def is_reserved_user(name: str) -> bool:
    return name in COMPONENTS or name.startswith(RESERVED_PREFIX)


def is_reserved_group(name: str) -> bool:
    return name in ADMINISTRATORS or name.startswith(RESERVED_PREFIX)


def reserved_subject(users: Iterable[str], groups: Iterable[str]) -> str:
    """The first name in the subject of a certificate that is never given on request; empty if there is none.

    >>> reserved_subject(["jane"], ["dev", "system:nodes"])
    'organization "system:nodes"'
    """
    for name in users:
        if is_reserved_user(name):
            return f'common name "{name}"'
    for name in groups:
        if is_reserved_group(name):
            return f'organization "{name}"'
    return ""
