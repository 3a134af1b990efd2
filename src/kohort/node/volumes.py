"""Provides the volumes of pods as directories of this machine.

Content that follows the API (configuration, secrets, tokens, the pod's own labels) is written to a fresh directory
that a symlink is then pointed at: readers see the old content or the new, never a mixture.

    VOLUME/..data -> ..1700000000.123456
    VOLUME/key    -> ..data/key

Who may read a service account token:

| pod                                        | mode of the file | owner                              |
|--------------------------------------------|------------------|------------------------------------|
| has an `fsGroup`                           | 0640             | that user if there is one, or root |
| all its containers name the same `runAsUser` | 0600           | that user                          |
| any other                                  | `defaultMode`    | root                               |

Volumes with Secrets, tokens or fields of the pod are file systems in memory where the node is told so: what they hold
is never written to a disk.

A claim is set up once for each pod. `VOLUME~claim`, a link to the directory, says that this was done, also to an agent
that comes later: a volume in use keeps its group.
"""

import asyncio
import base64
import contextlib
import os
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from kohort.kube import clock
from kohort.kube.client import Client
from kohort.kube.errors import ApiError, NotFound
from kohort.kube.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from kohort.node import emptydir
from kohort.node.container_environment import ConfigProblem, expanded, field_value, resource_value
from kohort.node.directory_images import directory_of
from kohort.node.image_config import read_image
from kohort.node.machine_info import Machine
from kohort.node.pod_record import containers_of
from kohort.node.runtimes.interface import Mount, NoImage
from kohort.node.sub_paths import find_sub_path, make_sub_path
from kohort.node.syscalls import open_without_links
from kohort.node.volume_ownership import give_to_group
from kohort.objects.core import ConfigMap, PersistentVolume, PersistentVolumeClaim, Secret
from kohort.objects.json_types import JsonObject
from kohort.objects.node_pods import NodeContainer, NodePod, PodSecurityContext, SecurityContext
from kohort.objects.volumes import (
    ConfigMapSource,
    DownwardSource,
    HostPath,
    KeyToPath,
    ProjectedPart,
    SecretSource,
    ServiceAccountTokenSource,
    Volume,
)
from kohort.rules.local_volumes import PROVISIONED_BY, PROVISIONER

REFRESH_SECONDS: Final = 60.0
NO_IMAGE_VOLUMES: Final = (
    "volumes of type image are not supported on a node that runs containers in a container runtime; copy the files "
    "with an init container of that image into an emptyDir"
)
TOKEN_SHARE: Final = 0.8
CLAIM_SUFFIX: Final = "~claim"


class VolumeFile(NamedTuple):
    content: bytes
    mode: int
    owner: int | None = None
    """A user; None for that of the agent."""


Files = dict[str, VolumeFile]
"""By path below the volume."""


class MountProblem(Exception):
    """A volume cannot be provided; the message says which and why."""


class Content(msgspec.Struct, frozen=True):
    """Of a ConfigMap or Secret."""

    data: dict[str, bytes]
    binary: dict[str, bytes] = {}
    """`binaryData` of a ConfigMap."""


class ConfigSources:
    """ConfigMaps and Secrets by name, remembered for a while."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: dict[tuple[str, str, str], tuple[float, Content]] = {}

    async def data(self, kind: str, namespace: str, name: str, *, fresh: bool = False) -> dict[str, bytes] | None:
        """All of it."""
        found = await self._content(kind, namespace, name, fresh=fresh)
        return None if found is None else {**found.data, **found.binary}

    async def variables(self, kind: str, namespace: str, name: str) -> dict[str, bytes] | None:
        """What an environment can be made of: not the binary part of a ConfigMap."""
        found = await self._content(kind, namespace, name)
        return None if found is None else found.data

    async def _content(self, kind: str, namespace: str, name: str, *, fresh: bool = False) -> Content | None:
        key = (kind, namespace, name)
        known = self._known.get(key)
        now = asyncio.get_running_loop().time()
        if known is not None and not fresh and now - known[0] < REFRESH_SECONDS:
            return known[1]
        found = await self._read(kind, namespace, name)
        self._known.pop(key, None)
        if found is not None:
            self._known[key] = (now, found)
        self._drop_old(now)
        return found

    def _drop_old(self, now: float) -> None:
        """Pods come and go, and what they have read would stay in memory for ever. The oldest comes first."""
        for key, (read_at, _) in list(self._known.items()):
            if now - read_at < REFRESH_SECONDS:
                break
            del self._known[key]

    async def _read(self, kind: str, namespace: str, name: str) -> Content | None:
        try:
            if kind == "configmap":
                config = await self._client.get(CONFIG_MAPS, name, namespace, type=ConfigMap)
                binary = {key: base64.b64decode(value) for key, value in config.binary_data.items()}
                return Content({key: value.encode() for key, value in config.data.items()}, binary)
            secret = await self._client.get(SECRETS, name, namespace, type=Secret)
        except NotFound:
            return None
        return Content({key: base64.b64decode(value) for key, value in secret.data.items()})


class PodVolumes:
    def __init__(
        self, client: Client, sources: ConfigSources, machine: Machine, images: Path | None, *, secrets_in_memory: bool
    ) -> None:
        """`images` is the directory of images; None if a container runtime has them. `secrets_in_memory` asks for file
        systems in memory for Secrets and tokens."""
        self._client = client
        self._images = images
        self._sources = sources
        self._machine = machine
        self._secrets_in_memory = secrets_in_memory
        self._tokens: dict[tuple[str, str], tuple[float, bytes]] = {}

    async def prepare(self, pod: NodePod, directory: Path, address: str) -> dict[str, str]:
        """Where each volume of a pod with this address is. Called again, it brings content up to date. Raises
        MountProblem."""
        facts = self._machine.field_values(address)
        found = {}
        for volume in pod.spec.volumes:
            place = directory / volume.name
            try:
                found[volume.name] = await self._provide(pod, volume, place, facts)
            except (ConfigProblem, ApiError, OSError, ValueError) as problem:  # a path may hold a NUL byte
                message = problem.message if isinstance(problem, ApiError) else str(problem)
                raise MountProblem(f'MountVolume.SetUp failed for volume "{volume.name}" : {message}') from problem
        return found

    def forget(self, uid: str) -> None:
        """A pod needs its tokens no longer."""
        for key in [each for each in self._tokens if each[0] == uid]:
            del self._tokens[key]

    async def _provide(self, pod: NodePod, volume: Volume, place: Path, facts: Mapping[str, str]) -> str:
        if volume.host_path is not None:
            return _host_path(volume.host_path)
        if claim := volume.claim_name(pod.metadata.name):
            return await self._claimed(pod, volume, claim, place)
        if volume.image is not None:
            if self._images is None:
                raise ConfigProblem(NO_IMAGE_VOLUMES)
            return _image_root(volume.image.reference, self._images)
        if volume.unsupported_source:
            raise ConfigProblem(f"volumes of type {volume.unsupported_source} are not supported by this node")
        group = _fs_group(pod)
        if volume.empty_dir is None:
            files = await self._files(pod, volume, facts)
            if self._secrets_in_memory and volume.config_map is None:
                emptydir.mount_unless_used(place)
            write_atomically(place, files, group)
        else:
            size = emptydir.memory_size(pod, volume.empty_dir, self._machine.allocatable)
            emptydir.provide(volume.empty_dir, place, size, group)
        return str(place)

    async def _files(self, pod: NodePod, volume: Volume, facts: Mapping[str, str]) -> Files:
        if volume.config_map is not None:
            return await self._config(pod, volume.config_map, volume.config_map.default_mode)
        if volume.secret is not None:
            return await self._secret(pod, volume.secret, volume.secret.default_mode)
        if volume.downward_api is not None:
            return self._downward(pod, volume.downward_api, volume.downward_api.default_mode, facts)
        found: Files = {}
        if volume.projected is not None:
            for part in volume.projected.sources or ():
                found |= await self._projected(pod, part, volume.projected.default_mode, facts)
        return found

    async def _projected(self, pod: NodePod, part: ProjectedPart, mode: int | None, facts: Mapping[str, str]) -> Files:
        if part.config_map is not None:
            return await self._config(pod, part.config_map, mode)
        if part.secret is not None:
            return await self._secret(pod, part.secret, mode)
        if part.downward_api is not None:
            return self._downward(pod, part.downward_api, mode, facts)
        if part.service_account_token is not None:
            token = await self._token(pod, part.service_account_token)
            user = common_user(pod)
            if user is not None or _fs_group(pod) is not None:
                mode = 0o600  # which a group extends, see `write_atomically`
            return {part.service_account_token.path: VolumeFile(token, _mode(mode), user)}
        return {}

    async def _config(self, pod: NodePod, source: ConfigMapSource, mode: int | None) -> Files:
        data = await self._sources.data("configmap", pod.metadata.namespace, source.name, fresh=True)
        return _keyed(data, source.items, mode, source.optional, f'configmap "{source.name}"')

    async def _secret(self, pod: NodePod, source: SecretSource, mode: int | None) -> Files:
        name = source.secret_name or source.name
        data = await self._sources.data("secret", pod.metadata.namespace, name, fresh=True)
        return _keyed(data, source.items, mode, source.optional, f'secret "{name}"')

    def _downward(self, pod: NodePod, source: DownwardSource, mode: int | None, facts: Mapping[str, str]) -> Files:
        found: Files = {}
        for item in source.items:
            if item.field_ref is not None:
                text = field_value(pod, item.field_ref, facts)
            elif item.resource_field_ref is not None:
                container = _named(pod, item.resource_field_ref.container_name)
                text = resource_value(pod, container, item.resource_field_ref, self._machine.allocatable)
            else:
                continue
            found[item.path] = VolumeFile(text.encode(), _mode(item.mode, mode))
        return found

    async def _token(self, pod: NodePod, source: ServiceAccountTokenSource) -> bytes:
        """A token of the pod's service account, renewed when most of its life is over."""
        key = (pod.metadata.uid, f"{source.audience}/{source.path}")
        known = self._tokens.get(key)
        if known is not None and clock.seconds() < known[0]:
            return known[1]
        reference = {"kind": "Pod", "apiVersion": "v1", "name": pod.metadata.name, "uid": pod.metadata.uid}
        request: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": source.expiration_seconds, "boundObjectRef": reference},
        }
        if source.audience:
            request["spec"]["audiences"] = [source.audience]
        account = pod.spec.service_account_name or "default"
        answer = await self._client.create(
            SERVICE_ACCOUNTS, request, pod.metadata.namespace, subresource="token", name=account
        )
        token = str(answer["status"]["token"]).encode()
        self._tokens[key] = (clock.seconds() + source.expiration_seconds * TOKEN_SHARE, token)
        return token

    async def _claimed(self, pod: NodePod, volume: Volume, name: str, place: Path) -> str:
        """The directory behind a claim. At its first use by a pod, a local volume is given to the pod's `fsGroup`; one
        that other pods use keeps its group, and so does a host path, as with kubelet."""
        found = await self._bound_volume(pod, name, of_pod=volume.ephemeral is not None)
        if found.spec.local is not None:
            source = HostPath(found.spec.local.path, "DirectoryOrCreate")
        elif found.spec.host_path is not None:
            source = HostPath(found.spec.host_path.path, found.spec.host_path.type or "DirectoryOrCreate")
        else:
            raise ConfigProblem(f'persistentvolume "{found.metadata.name}" is neither local nor a host path')
        link = place.with_name(f"{place.name}{CLAIM_SUFFIX}")
        if link.is_symlink():
            return _host_path(source)
        if found.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER:
            _provision(Path("/", source.path))
        path, claim = _host_path(source), volume.persistent_volume_claim
        writable = claim is None or not claim.read_only
        if found.spec.local is not None and writable and not _in_use(path, place.parent):
            await _give_to_pod(path, pod)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path)
        return path

    async def _bound_volume(self, pod: NodePod, name: str, *, of_pod: bool) -> PersistentVolume:
        """The volume of a claim. A pod that names its node passes no scheduler, so it is checked here that claim and
        volume are bound to each other: every user may write a claim that names the volume of another. `of_pod` is for
        the claim of an ephemeral volume, which must belong to the pod."""
        claim = await self._client.get(
            PERSISTENT_VOLUME_CLAIMS, name, pod.metadata.namespace, type=PersistentVolumeClaim
        )
        if of_pod and not claim.metadata.is_controlled_by(pod.metadata.uid):
            raise ConfigProblem(f'persistentvolumeclaim "{name}" was not created for this pod')
        if not claim.spec.volume_name or claim.status.phase != "Bound":
            raise ConfigProblem(f'persistentvolumeclaim "{name}" is not bound')
        volume = await self._client.get(PERSISTENT_VOLUMES, claim.spec.volume_name, type=PersistentVolume)
        if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
            raise ConfigProblem(
                f'persistentvolume "{claim.spec.volume_name}" is not bound to persistentvolumeclaim "{name}"'
            )
        return volume


def common_user(pod: NodePod) -> int | None:
    """The user that all containers of a pod name; None if one names none, or another."""
    whole = pod.spec.security_context or PodSecurityContext()
    own = (each.security_context or SecurityContext() for each in containers_of(pod))
    users = {whole.run_as_user if each.run_as_user is None else each.run_as_user for each in own}
    return users.pop() if len(users) == 1 else None


def _fs_group(pod: NodePod) -> int | None:
    return pod.spec.security_context.fs_group if pod.spec.security_context is not None else None


async def _give_to_pod(volume: str, pod: NodePod) -> None:
    context = pod.spec.security_context
    if context is not None and context.fs_group is not None and os.geteuid() == 0:
        await asyncio.to_thread(give_to_group, volume, context.fs_group, context.fs_group_change_policy)


def _provision(directory: Path) -> None:
    """Make the directory of a volume of our storage class. Every user may write to it, as with the local path
    provisioner of Rancher: which user that will be is not known."""
    if not directory.is_dir():
        directory.mkdir(parents=True)
        directory.chmod(0o777)


def _in_use(path: str, volumes: Path) -> bool:
    """Whether another pod of this node has set up a claim in the directory at `path`; `volumes` are those of a pod."""
    others = volumes.parent.parent.glob(f"*/{volumes.name}/*{CLAIM_SUFFIX}")
    return any(os.readlink(each) == path for each in others if each.parent != volumes)


def mounts_of(
    pod: NodePod, container: NodeContainer, places: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[Mount, ...]:
    """What to mount where in a container. Raises MountProblem."""
    read_only = {
        each.name
        for each in pod.spec.volumes
        if each.config_map or each.secret or each.projected or each.downward_api or each.image
    }
    read_only |= {
        each.name
        for each in pod.spec.volumes
        if each.persistent_volume_claim is not None and each.persistent_volume_claim.read_only
    }
    images = {each.name for each in pod.spec.volumes if each.image is not None}
    found = []
    for mount in container.volume_mounts:
        source, part = places[mount.name], ""
        below = expanded(mount.sub_path_expr, environment) if mount.sub_path_expr else mount.sub_path
        if below:
            try:
                source, part = _part_of(source, below, make=mount.name not in images)
            except (ValueError, OSError) as problem:
                message = f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container.name}"'
                raise MountProblem(f"{message}: {problem}") from None
        is_read_only = mount.read_only or mount.name in read_only
        target = os.path.join("/", mount.mount_path)
        found.append(Mount(source, target, is_read_only, propagation=mount.mount_propagation, sub_path=part))
    return tuple(found)


def _part_of(volume: str, below: str, *, make: bool) -> tuple[str, str]:
    """The volume and a part of it, which is made if it is not there and the volume is not an image. Links that lead out
    of the volume are not followed: a pod that may write to the volume could read any file of the machine. Raises
    ValueError, OSError."""
    base, path = find_sub_path(volume, below)
    if path and not os.path.lexists(os.path.join(base, path)):
        if not make:
            raise ValueError(f"{below!r} is not in the image")
        make_sub_path(base, path)
    return base, path


def read_in_volume(volume: str, below: str, largest: int) -> bytes:
    """A file in a volume that containers may write to. Raises ValueError, OSError."""
    base, path = find_sub_path(volume, below)
    with open(open_without_links(base, path or ".", os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{below!r} is not a regular file")
        content = file.read(largest + 1)
    if len(content) > largest:
        raise ValueError(f"{below!r} is larger than {largest} bytes")
    return content


def write_atomically(place: Path, files: Files, group: int | None = None) -> None:
    """Replace the content of a volume in one step. Files belong to `group`, which may read them."""
    place.mkdir(parents=True, exist_ok=True)
    readable = 0 if group is None else 0o440
    files = {path: VolumeFile(each.content, each.mode | readable, _owner(each)) for path, each in files.items()}
    current = place / "..data"
    if current.is_symlink() and _content(current) == files:
        return
    fresh = place / f"..{time.time_ns()}"
    _make_readable(fresh)
    for path, file in files.items():
        target = fresh / path
        for above in reversed(target.parents[: len(Path(path).parents) - 1]):
            _make_readable(above)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
            if os.geteuid() == 0:
                os.fchown(written.fileno(), -1 if file.owner is None else file.owner, -1 if group is None else group)
            written.write(file.content)
        target.chmod(file.mode)
    old = os.readlink(current) if current.is_symlink() else ""
    link = place / "..data_new"
    with contextlib.suppress(FileNotFoundError):
        link.unlink()
    link.symlink_to(fresh.name)
    os.replace(link, current)
    tops = {path.split("/", 1)[0] for path in files}
    for top in tops:
        if not (place / top).is_symlink():
            (place / top).symlink_to(f"..data/{top}")
    for each in place.iterdir():
        if not each.name.startswith("..") and each.name not in tops:
            each.unlink()
    if old:
        shutil.rmtree(place / old, ignore_errors=True)


def _owner(file: VolumeFile) -> int:
    """The user that a file has when it is written: an agent that is not root keeps it."""
    return file.owner if file.owner is not None and os.geteuid() == 0 else os.geteuid()


def _make_readable(directory: Path) -> None:
    """A directory that all users may enter, whatever the agent's umask is."""
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)


def _content(directory: Path) -> Files:
    root = directory.resolve()
    found: Files = {}
    for path in root.rglob("*"):
        if path.is_file():
            status = path.stat()
            found[str(path.relative_to(root))] = VolumeFile(path.read_bytes(), status.st_mode & 0o7777, status.st_uid)
    return found


def _keyed(
    data: Mapping[str, bytes] | None, items: tuple[KeyToPath, ...], mode: int | None, optional: bool, what: str
) -> Files:
    if data is None:
        if optional:
            return {}
        raise ConfigProblem(f"{what} not found")
    if not items:
        return {key: VolumeFile(content, _mode(mode)) for key, content in data.items()}
    found: Files = {}
    for item in items:
        if item.key in data:
            found[item.path] = VolumeFile(data[item.key], _mode(item.mode, mode))
        elif not optional:
            raise ConfigProblem(f"references non-existent {what} key: {item.key}")
    return found


def _mode(*wanted: int | None) -> int:
    """The first that is set: 0, with which only root can read a file, is a mode like others."""
    return next((each for each in wanted if each is not None), 0o644)


def _named(pod: NodePod, name: str) -> NodeContainer:
    for container in (*(pod.spec.containers or ()), *pod.spec.init_containers):
        if container.name == name:
            return container
    raise ConfigProblem(f"there is no container {name!r}")


def _image_root(reference: str, images: Path) -> str:
    """The files of an image, or of the machine for the image that is the machine itself."""
    try:
        return read_image(directory_of(reference, images)).root or "/"
    except NoImage as problem:
        raise ConfigProblem(str(problem)) from problem


_HOST_PATH_TYPES: Final = {
    "Directory": (Path.is_dir, "a directory"),
    "File": (Path.is_file, "a file"),
    "Socket": (Path.is_socket, "a socket file"),
    "CharDevice": (Path.is_char_device, "a character device"),
    "BlockDevice": (Path.is_block_device, "a block device"),
}


def _host_path(source: HostPath) -> str:
    path = Path("/", source.path)
    if source.type == "DirectoryOrCreate" and not path.exists():
        path.mkdir(parents=True, exist_ok=True)
    elif source.type == "FileOrCreate" and not path.exists():
        path.touch()
    check = _HOST_PATH_TYPES.get(source.type.removesuffix("OrCreate"))
    if check is not None and not check[0](path):
        raise ConfigProblem(f"hostPath type check failed: {path} is not {check[1]}")
    if not path.exists():
        raise ConfigProblem(f"hostPath {path} does not exist")
    return str(path)
