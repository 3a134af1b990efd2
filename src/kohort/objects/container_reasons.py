"""Reasons of containers that wait or have ended, as Kubernetes names them. Nodes write them, other parts read them.

| a container waits                          | reason                                     |
|--------------------------------------------|--------------------------------------------|
| for its turn                               | PodInitializing, ContainerCreating         |
| between two starts                         | CrashLoopBackOff                           |
| for an image: during a pull, between two   | ErrImagePull, ImagePullBackOff             |
| the same, where the runtime says why       | RegistryUnavailable, SignatureValidationFailed |
| for an image that cannot be pulled at all  | ErrImageNeverPull, InvalidImageName        |
| because it cannot be created or started    | CreateContainerConfigError, CreateContainerError, RunContainerError |
"""

from typing import Final

POD_INITIALIZING: Final = "PodInitializing"
CONTAINER_CREATING: Final = "ContainerCreating"
ORDINARY_WAITS: Final = frozenset({"", POD_INITIALIZING, CONTAINER_CREATING})
"""A container that waits for one of these waits for its turn: nothing is wrong."""

CRASH_LOOP_BACK_OFF: Final = "CrashLoopBackOff"

ERR_IMAGE_PULL: Final = "ErrImagePull"
REGISTRY_UNAVAILABLE: Final = "RegistryUnavailable"
SIGNATURE_VALIDATION_FAILED: Final = "SignatureValidationFailed"
FAILED_PULLS: Final = frozenset({ERR_IMAGE_PULL, REGISTRY_UNAVAILABLE, SIGNATURE_VALIDATION_FAILED})
"""A pull has failed; some runtimes say why in one word, others do not."""
IMAGE_PULL_BACK_OFF: Final = "ImagePullBackOff"
ERR_IMAGE_NEVER_PULL: Final = "ErrImageNeverPull"
INVALID_IMAGE_NAME: Final = "InvalidImageName"

CREATE_CONTAINER_CONFIG_ERROR: Final = "CreateContainerConfigError"
CREATE_CONTAINER_ERROR: Final = "CreateContainerError"
RUN_CONTAINER_ERROR: Final = "RunContainerError"

# Of containers that have ended
OOM_KILLED: Final = "OOMKilled"
START_ERROR: Final = "StartError"
CONTAINER_CANNOT_RUN: Final = "ContainerCannotRun"
NEVER_RAN: Final = frozenset({START_ERROR, CONTAINER_CANNOT_RUN})
"""The program could not be run; runtimes differ in the word."""
CONTAINER_STATUS_UNKNOWN: Final = "ContainerStatusUnknown"
