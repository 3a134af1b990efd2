"""Where the node agent is not like kubelet, and means to be. docs/conformance.md has every row, with its reason."""

from typing import Final

from tests.kernel.twin.comparison import Known

ABSENT_LIMITS: Final = "absent limits in requests to the runtime"
SWAP: Final = "swap of containers with a memory limit"
ENDED: Final = "`status.resources` of a pod that has ended"
RESIZED: Final = "requests in `status.resources` after a resize"
UNLIMITED: Final = "`status.resources` of a pod with an unlimited container"
MOUNTS: Final = "`volumeMounts` of container statuses"
HOSTS: Final = "names of Services in the hosts file"
SHARES: Final = "cpu shares and weight"
INHERITED: Final = "cpu weight of a container that inherits its limit"
ADDRESS: Final = "address of a pod that waits for its volumes"
IN_USE: Final = "message for a memory limit below the memory in use"
IMAGE_NAME: Final = "message for an image name that is not valid"

KNOWN: Final[tuple[Known, ...]] = (
    Known(ABSENT_LIMITS, "/containers/*/asked/cpu/quota", kubelet="nothing", ours="-1"),
    Known(ABSENT_LIMITS, "/containers/*/asked/memory/limit", kubelet="nothing", ours="-1"),
    Known(ABSENT_LIMITS, "/containers/*/asked/memory/swap", kubelet="nothing", ours="-1"),
    Known(SHARES, "/containers/*/asked/cpu/shares"),
    Known(INHERITED, "/containers/c/cgroup/cpu.weight", cases="resize-of-the-pod*", kubelet="1"),
    Known(SWAP, "/containers/*/asked/memory/swap", kubelet="nothing", ours="[0-9]*"),
    Known(SWAP, "/containers/*/cgroup/memory.swap.max", kubelet="max", ours="0"),
    Known(ENDED, "/status/resources/*", kubelet="nothing"),
    Known(RESIZED, "/status/resources/requests/*", cases="resize-*"),
    Known(UNLIMITED, "/status/resources/limits/*", ours="nothing"),
    Known(MOUNTS, "/status/*ontainerStatuses/*/volumeMounts", ours="nothing"),
    Known(IN_USE, "/status/conditions/PodResizeInProgress/message", cases="resize-of-memory-in-use"),
    Known(ADDRESS, "/status/podIP*", cases="config-map-volume-missing", kubelet="nothing"),
    Known(HOSTS, "/containers/c/output", cases="hostname-and-subdomain"),
    Known(IMAGE_NAME, "/status/containerStatuses/c/state/waiting/message", cases="image-name-not-valid"),
)
