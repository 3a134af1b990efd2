"""Containers that do not start, and what is said of it."""

from pathlib import Path

from tests.node.agent.node_bench import container, node

from kohort.kube.resources import CONFIG_MAPS, SECRETS
from kohort.node.image_config import Image
from kohort.node.runtimes.interface import ImageRequest, NoImage
from kohort.objects.json_types import JsonObject


def reason(status: JsonObject) -> str:
    return str(status.get("state", {}).get("waiting", {}).get("reason", ""))


async def test_images_that_are_not_here_are_named(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        await bench.create(
            containers=[container("c", image="nginx"), container("n", image="x", imagePullPolicy="Never")]
        )
        await bench.until(lambda: reason(bench.status()) == "ErrImagePull")
        await bench.until(lambda: reason(bench.status()) == "ImagePullBackOff")
        waits = bench.status()["state"]["waiting"]["message"]
        assert waits.startswith('Back-off pulling image "nginx": ErrImagePull: ')
        assert bench.status("n")["state"]["waiting"] == {
            "reason": "ErrImageNeverPull",
            "message": 'Container image "x" is not present with pull policy of Never',
        }
        assert {"Warning Failed: Error: ErrImagePull", 'Normal BackOff: Back-off pulling image "nginx"'} <= {
            *bench.said()
        }


class UnavailableRegistry:
    async def ensure(self, request: ImageRequest) -> Image:
        raise NoImage("connection refused", "RegistryUnavailable")


async def test_a_pull_whose_problem_the_runtime_names_is_tried_again_like_every_other(tmp_path: Path) -> None:
    async with node(tmp_path, images=UnavailableRegistry()) as bench:
        await bench.create(containers=[container("c", image="nginx")])
        await bench.until(lambda: reason(bench.status()) == "RegistryUnavailable")
        await bench.until(lambda: reason(bench.status()) == "ImagePullBackOff")
        waits = bench.status()["state"]["waiting"]["message"]
        assert waits == 'Back-off pulling image "nginx": RegistryUnavailable: connection refused'
        assert 'Warning Failed: Failed to pull image "nginx": connection refused' in bench.said()


async def test_a_program_that_is_not_there_ends_a_pod_that_does_not_restart(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        bench.runtime.broken["run"] = 'exec: "run": executable file not found in $PATH'
        await bench.create("once", restartPolicy="Never")
        await bench.create("again", restartPolicy="OnFailure")
        await bench.until(lambda: bench.phase("once") == "Failed")
        ended = bench.status(name="once")["state"]["terminated"]
        assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
        assert ended["message"] == 'exec: "run": executable file not found in $PATH'
        await bench.until(lambda: bench.status(name="again").get("restartCount") == 2)
        bench.runtime.broken.clear()
        await bench.until(lambda: bench.conditions("again")["Ready"]["status"] == "True")
        assert bench.status(name="again")["lastState"]["terminated"]["reason"] == "StartError"


async def test_a_wait_before_the_next_start_is_told(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        uid = await bench.create()
        for attempt in range(2):
            await bench.until(lambda attempt=attempt: f"c_{attempt}" in bench.running())  # type: ignore[misc]
            bench.runtime.end(f"{uid}_c_{attempt}", 1)
        await bench.until(lambda: reason(bench.status()) == "CrashLoopBackOff")
        words = bench.status()["state"]["waiting"]["message"]
        assert words == f"back-off 10s restarting failed container=c pod=p_default({uid})"
        await bench.until(lambda: "BackOff" in bench.events())
        assert f"Warning BackOff: Back-off restarting failed container c in pod p_default({uid})" in bench.said()


async def test_an_environment_that_no_process_can_have_is_told(tmp_path: Path) -> None:
    async with node(tmp_path) as bench:
        secret: JsonObject = {"metadata": {"name": "s"}, "data": {"KEY": "AGE=", "GOOD": "Z29vZA=="}}
        await bench.cluster.client.create(SECRETS, secret, "default")
        config: JsonObject = {"metadata": {"name": "m"}, "data": {"TEXT": "1"}, "binaryData": {"BLOB": "AAA="}}
        await bench.cluster.client.create(CONFIG_MAPS, config, "default")
        good = [{"name": "G", "valueFrom": {"secretKeyRef": {"name": "s", "key": "GOOD"}}}]
        await bench.create(
            containers=[
                container("c", envFrom=[{"secretRef": {"name": "s"}}]),
                container("d", env=good, envFrom=[{"configMapRef": {"name": "m"}}]),
                container("e", command=["run", "a\0b"]),
            ]
        )
        await bench.until(lambda: reason(bench.status()) == "CreateContainerConfigError")
        words = 'environment variable "KEY" holds a NUL byte, which no process can be given'
        assert bench.status()["state"]["waiting"]["message"] == words
        await bench.until(lambda: reason(bench.status("e")) == "CreateContainerError")
        await bench.until(lambda: bench.running() == ["d_0"])
        (launch,) = (each for each in bench.runtime.launches.values() if each.id.endswith("_d_0"))
        assert (launch.env["TEXT"], launch.env["G"], "BLOB" in launch.env) == ("1", "good", False)
