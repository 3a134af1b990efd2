"""For runtimes whose pods share nothing that must be made before their first container."""

from collections.abc import Callable

from kohort.node.runtimes.interface import ImageSource, Instance, PodSandboxSpec
from kohort.resources import CgroupValues


class RuntimeWithoutSandboxes:
    """The agent makes namespaces and cgroups of pods and containers; images are directories of the node."""

    images: ImageSource | None = None
    makes_cgroups = False
    gives_exact_groups = True
    sandbox_image = ""
    problem = network_problem = ""

    def __init__(self) -> None:
        self._callbacks: list[Callable[[Instance], None]] = []
        """Called with each instance that has ended."""

    def on_exit(self, callback: Callable[[Instance], None]) -> None:
        self._callbacks.append(callback)

    def on_change(self, callback: Callable[[], None]) -> None:
        pass

    def on_sandbox_lost(self, callback: Callable[[str], None]) -> None:
        pass

    async def prepare_pod(self, pod: PodSandboxSpec) -> None:
        pass

    async def stop_pod(self, uid: str) -> None:
        pass

    async def remove_pod(self, uid: str) -> None:
        pass

    async def pods(self) -> set[str]:
        return set()

    def cgroup_name(self, pod_uid: str, container: str) -> str:
        return container

    async def layer_bytes(self) -> dict[str, int] | None:
        return None

    async def resize(self, pod_uid: str, container: str, values: CgroupValues) -> None:
        pass

    async def resize_pod(self, uid: str, values: CgroupValues) -> None:
        pass
