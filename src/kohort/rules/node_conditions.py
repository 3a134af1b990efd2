"""Conditions of nodes beyond those of Kubernetes."""

from typing import Final

RESOURCES_ENFORCED: Final = "ResourcesEnforced"
"""False where the node agent cannot write cgroups: limits of pods are recorded there, and nothing enforces them."""
