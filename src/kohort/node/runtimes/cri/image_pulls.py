"""Images from registries: the policy says when, credentials say how, and no image is pulled twice at the same time.

| policy         | the image is there                 | it is not                                    |
|----------------|------------------------------------|----------------------------------------------|
| `Always`       | pulled: the registry says if same  | pulled                                       |
| `IfNotPresent` | used                               | pulled                                       |
| `Never`        | used                               | `ErrImageNeverPull`                          |

A pod without a policy has the one that `rules.image_pull_policy` says. A pull is a task of its own: the pod is
reconciled meanwhile, can be deleted, and is woken when the image is there or could not be pulled. Pods that want the
same image with the same credentials share one pull. All credentials that fit are tried in turn; they are never logged,
nor part of an event.

Three images are pulled at the same time; namespaces take turns (`pull_turns`). A pull that takes longer than a minute
does not count any more: a registry that answers slowly, or never, must not keep other pods from starting. Events say
that an image is still being pulled, or still waits for its turn, after one minute, three, seven and so on.
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from kohort.kube import clock
from kohort.kube.ratelimit import TokenBucket
from kohort.node.grpc.status import Code, RpcError
from kohort.node.image_config import Image, ImageConfig
from kohort.node.runtimes.cri import messages as cri
from kohort.node.runtimes.cri.client import CriClient
from kohort.node.runtimes.cri.image_names import (
    LONGEST_REFERENCE,
    Credentials,
    ImageName,
    InvalidImageName,
    Keys,
    fitting,
    image_name,
    keys_of_file,
    keys_of_secret,
)
from kohort.node.runtimes.cri.pull_turns import PullTurns
from kohort.node.runtimes.interface import ImageBeingPulled, ImageRequest, NoImage
from kohort.objects import container_reasons
from kohort.objects.core import Secret
from kohort.objects.counted_nouns import agreeing, counted
from kohort.rules.host_images import is_machine_root
from kohort.rules.image_pull_policy import default_pull_policy
from kohort.rules.pod_status import duration

AT_ONCE: Final = 3
"""Pulls of different images."""
PULLS_A_SECOND: Final = 5.0
BURST: Final = 10
"""As kubelet's `registryPullQPS` and `registryBurst`; pulls beyond it wait."""
SLOW_SECONDS: Final = 60.0
"""A pull that takes longer does not keep others waiting, and is reported."""
_REFUSED: Final = (
    *("authorization failed", "unauthorized", "access denied", "401", "403", "insufficient_scope"),
    "authentication required",
)
_REASONS: Final = {
    container_reasons.REGISTRY_UNAVAILABLE: "the registry is unavailable",
    container_reasons.SIGNATURE_VALIDATION_FAILED: "the signature validation failed",
}
FetchSecret = Callable[[str, str], Awaitable[Secret | None]]
"""By namespace and name; None if there is none."""


class PullResult(msgspec.Struct, frozen=True):
    """How a pull has ended; `problem` is empty if the image is there."""

    reference: str = ""
    problem: str = ""
    seconds: float = 0.0
    waited: float = 0.0


class RegistryImages:
    def __init__(self, client: CriClient, secrets: FetchSecret, credentials_file: Path | None = None) -> None:
        """`credentials_file` holds credentials of the node, as `docker login` writes them."""
        self._client = client
        self._secrets = secrets
        self._file = credentials_file
        self._pulls: dict[tuple[str, tuple[Credentials, ...]], asyncio.Task[PullResult]] = {}
        self._finished: dict[tuple[str, str, int], PullResult] = {}
        """By pod, container and attempt: a pull whose result was not taken yet."""
        self._begun: set[tuple[str, tuple[Credentials, ...]]] = set()
        """Pulls that have had their turn."""
        self._waiting: set[tuple[str, str, int]] = set()
        self._turns = PullTurns(AT_ONCE)
        self._turn_of: dict[tuple[str, tuple[Credentials, ...]], asyncio.Future[None]] = {}
        self._rate = TokenBucket(PULLS_A_SECOND, BURST)

    async def ensure(self, request: ImageRequest) -> Image:
        container = request.container
        if is_machine_root(container.image):
            message = (
                f'the image "{container.image}" is the root directory of the machine, and this node runs containers in '
                "a container runtime: start it with --runtime process, or use an image of a registry"
            )
            raise NoImage(message, container_reasons.INVALID_IMAGE_NAME)
        try:
            name = image_name(container.image)
        except InvalidImageName as problem:
            message = f'Failed to apply default image tag "{container.image[:LONGEST_REFERENCE]}": {problem}'
            request.event("Warning", "InspectFailed", message)
            raise NoImage(message, container_reasons.INVALID_IMAGE_NAME) from problem
        who = (request.pod.metadata.uid, container.name, request.attempt)
        if who in self._waiting:
            raise ImageBeingPulled
        if (result := self._finished.pop(who, None)) is not None:
            return await self._pulled(request, name, result)
        policy = container.image_pull_policy or default_pull_policy(container.image)
        if policy != "Always":
            found = await self._look_up(name)
            if found is not None:
                message = f'Container image "{container.image}" already present on machine'
                request.event("Normal", "Pulled", message)
                return _image(found)
            if policy == "Never":
                message = f'Container image "{container.image}" is not present with pull policy of Never'
                request.event("Warning", container_reasons.ERR_IMAGE_NEVER_PULL, message)
                raise NoImage(message, container_reasons.ERR_IMAGE_NEVER_PULL)
        self._waiting.add(who)
        pull = asyncio.create_task(self._pull_for(request, name, who), name="image-pull")
        pull.add_done_callback(_observed)
        raise ImageBeingPulled

    def forget(self, pod_uid: str) -> None:
        """A pod is gone; pulls that were begun for it may end."""
        self._waiting = {each for each in self._waiting if each[0] != pod_uid}
        for who in [each for each in self._finished if each[0] == pod_uid]:
            del self._finished[who]

    async def _pulled(self, request: ImageRequest, name: ImageName, result: PullResult) -> Image:
        image = request.container.image
        if result.problem:
            raise _failed_pull(image, result.problem)
        found = await self._look_up(name, result.reference)
        if found is None:
            raise NoImage(f'image "{image}" was removed right after it was pulled')
        took, whole = f"{result.seconds:.3g}s", f"{result.seconds + result.waited:.3g}s"
        times = f"in {took} ({whole} including waiting)"
        message = f'Successfully pulled image "{image}" {times}. Image size: {found.size} bytes.'
        request.event("Normal", "Pulled", message)
        return _image(found)

    async def _look_up(self, name: ImageName, reference: str = "") -> cri.Image | None:
        """Raises NoImage when the runtime cannot be asked."""
        for each in dict.fromkeys((reference, str(name))):
            if not each:
                continue
            try:
                request = cri.ImageStatusRequest(cri.ImageSpec(image=each))
                answer = await self._client.call(cri.IMAGE_STATUS, request)
            except RpcError as problem:
                message = f'Failed to inspect image "{name}": {problem.detail}'
                raise NoImage(message, "ImageInspectError") from problem
            if answer.image is not None:
                return answer.image
        return None

    async def _pull_for(self, request: ImageRequest, name: ImageName, who: tuple[str, str, int]) -> None:
        request.event("Normal", "Pulling", f'Pulling image "{request.container.image}"')
        try:
            keys, unusable = await self._keys(request)
            credentials = tuple(fitting(name, keys))
            key, namespace = (str(name), credentials), request.pod.metadata.namespace
            if key not in self._pulls:
                self._turn_of[key] = self._turns.ask(namespace)
                pull = asyncio.create_task(self._pull(name, credentials, self._turn_of[key]), name=f"pull {name}")
                self._pulls[key] = pull
                pull.add_done_callback(lambda _: (self._pulls.pop(key, None), self._turn_of.pop(key, None)))
            else:
                self._turns.share(self._turn_of[key], namespace)
            result = await self._reported(request, key, self._pulls[key])
            problem = _with_advice(result.problem, name, len(credentials), unusable)
            if who in self._waiting:
                self._finished[who] = msgspec.structs.replace(result, problem=problem)
        finally:
            self._waiting.discard(who)
            request.wake()

    async def _reported(
        self, request: ImageRequest, key: tuple[str, tuple[Credentials, ...]], pull: "asyncio.Task[PullResult]"
    ) -> PullResult:
        """The result of a pull; events say meanwhile that it takes long."""
        image, pause, passed = request.container.image, SLOW_SECONDS, 0.0
        while True:
            done, _ = await asyncio.wait((pull,), timeout=pause)
            if done:
                return pull.result()
            passed, pause = passed + pause, pause * 2
            if key in self._begun:
                message = f'Image "{image}" is still being pulled after {duration(passed)}'
            else:
                message = f'Image "{image}" has waited {duration(passed)} for {AT_ONCE} other pulls of this node'
            request.event("Normal", "Pulling", message)

    async def _pull(
        self, name: ImageName, credentials: tuple[Credentials, ...], turn: "asyncio.Future[None]"
    ) -> PullResult:
        asked, key = clock.seconds(), (str(name), credentials)
        await turn
        end_turn = self._timed_turn()
        try:
            await self._rate.take()
            begun = clock.seconds()
            self._begun.add(key)
            problems = []
            for each in credentials or (None,):
                request = cri.PullImageRequest(cri.ImageSpec(image=str(name)), _auth(each))
                try:
                    answer = await self._client.call(cri.PULL_IMAGE, request, timeout=None)
                except RpcError as problem:
                    problems.append(_pull_problem(problem))
                    continue
                return PullResult(answer.image_ref, "", clock.seconds() - begun, begun - asked)
        finally:
            end_turn()
            self._begun.discard(key)
        return PullResult(problem="; ".join(dict.fromkeys(problems)))

    def _timed_turn(self) -> Callable[[], None]:
        """What is returned ends the turn, which ends by itself after a while."""
        over = False

        def end() -> None:
            nonlocal over
            timer.cancel()
            if not over:
                over = True
                self._turns.end()

        timer = asyncio.get_running_loop().call_later(SLOW_SECONDS, end)
        return end

    async def _keys(self, request: ImageRequest) -> tuple[Keys, tuple[str, ...]]:
        """The pod's credentials before those of the node, and what cannot be used, with the reason. That is reported;
        others may fit."""
        found: list[tuple[str, Credentials]] = []
        unusable: list[str] = []
        namespace = request.pod.metadata.namespace
        for reference in request.pod.spec.image_pull_secrets:
            secret = await self._secrets(namespace, reference.name)
            try:
                if secret is None:
                    raise ValueError("not found")
                data = {key: base64.b64decode(value) for key, value in secret.data.items()}
                found += keys_of_secret(secret.type, data)
            except ValueError as problem:
                unusable.append(f"image pull secret {namespace}/{reference.name}: {problem}")
                message = f"Unable to use {unusable[-1]}"
                request.event("Warning", "FailedToRetrieveImagePullSecret", message)
        if self._file is not None:
            try:
                found += keys_of_file(await asyncio.to_thread(self._file.read_bytes))
            except (OSError, ValueError) as problem:
                unusable.append(f"the credentials of the node in {self._file}: {problem}")
                message = f"Unable to use {unusable[-1]}"
                request.event("Warning", "FailedToRetrieveImagePullSecret", message)
        return tuple(found), tuple(unusable)


def _auth(credentials: Credentials | None) -> cri.AuthConfig | None:
    """Without a server address: runtimes take it from the image, and containerd cannot parse one without a scheme."""
    if credentials is None:
        return None
    return cri.AuthConfig(credentials.username, credentials.password, identity_token=credentials.identity_token)


def _image(found: cri.Image) -> Image:
    """Of the configuration only the user is known; the rest is used by the runtime itself."""
    user = str(found.uid.value) if found.uid is not None else found.username
    return Image(config=ImageConfig(user=user), reference=found.id)


def _pull_problem(problem: RpcError) -> str:
    """As kubelet words it: a code that says nothing is left out."""
    if problem.code == Code.UNKNOWN:
        return problem.detail
    return f"rpc error: code = {problem.code.name.title().replace('_', '')} desc = {problem.detail}"


def _with_advice(problem: str, name: ImageName, tried: int, unusable: tuple[str, ...]) -> str:
    """A registry that refuses says no more than that; which credentials it was given, and which could not be used, is
    known here."""
    if not any(word in problem.lower() for word in _REFUSED):
        return problem
    if unusable:
        problem = f"{problem}; cannot use {'; '.join(unusable)}"
    if tried:
        logins = f"{counted(tried, 'login')} for {name.registry} {agreeing(tried, 'was', 'were')} tried"
        return f"{problem}; {logins}: check imagePullSecrets"
    if unusable:
        return f"{problem}; there are no other credentials for {name.registry}"
    return f"{problem}; there are no credentials for {name.registry}: if the image exists, add them to imagePullSecrets"


def _failed_pull(image: str, problem: str) -> NoImage:
    """CRI-O begins some problems with the reason that the status of the pod should have."""
    for reason, cause in _REASONS.items():
        if problem.startswith(reason):
            rest = problem.removeprefix(reason)
            return NoImage(f"image pull failed for {image} because {cause}{rest}", reason)
    return NoImage(problem)


def _observed(task: "asyncio.Task[None]") -> None:
    """A pull that failed unexpectedly is tried again at the pod's next sync."""
    if not task.cancelled():
        task.exception()
