"""Volumes in directories of nodes: the API server offers the class, the volume controller makes the volumes."""

from typing import Final

STORAGE_CLASS: Final = "local-path"
PROVISIONER: Final = "kohort.dev/local-path"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
"""The annotation of a volume that names its provisioner."""
