"""Images from registries: policies, credentials, back-off, names."""

import base64
import json

import pytest
from tests.containers.cluster import ContainerCluster, is_ready, state_of, status_of
from tests.containers.containerd import image_archive
from tests.containers.runtime import RuntimeUnderTest

from kohort.kube.resources import SECRETS
from kohort.objects.container_reasons import FAILED_PULLS
from kohort.objects.json_types import JsonObject

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done")


def waiting(pod: JsonObject) -> JsonObject:
    found: JsonObject = state_of(pod).get("waiting", {})
    return found


async def test_the_policy_says_whether_the_registry_is_asked(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, registry: str
) -> None:
    def push(mark: str) -> str:
        return runtime.push(registry, "test/moves:stable", image_archive("x:1", command=SLEEP, mark=mark))

    image = push("old")
    async with cluster.node():
        await cluster.create("never", {"image": image, "imagePullPolicy": "Never"})
        pod = await cluster.until("never", lambda pod: waiting(pod).get("reason") == "ErrImageNeverPull")
        assert "is not present with pull policy of Never" in waiting(pod)["message"]
        await cluster.delete("never")
        await cluster.run("first", {"image": image})
        push("new")
        await cluster.run("present", {"image": image, "imagePullPolicy": "IfNotPresent"})
        await cluster.run("never", {"image": image, "imagePullPolicy": "Never"})
        await cluster.run("always", {"image": image, "imagePullPolicy": "Always"})
        marks = [await cluster.shell(name, "cat /mark") for name in ("first", "present", "never", "always")]
        assert marks == ["old", "old", "old", "new"]
        ids = [status_of(await cluster.until(name, is_ready))["imageID"] for name in ("first", "always")]
        assert ids[0] != ids[1]
        assert "already present on machine" in await cluster.until_event("present", "Pulled")
        assert "Successfully pulled image" in await cluster.until_event("always", "Pulled")


async def test_an_image_by_its_digest(cluster: ContainerCluster) -> None:
    async with cluster.node():
        pod = await cluster.run("a")
        digest = status_of(pod)["imageID"]
        assert "@sha256:" in digest
        await cluster.run("b", {"image": digest})
        assert await cluster.shell("b", "cat /mark") == "one"


async def test_a_name_that_names_no_image(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create("a", {"image": "Not/A/Name"})
        pod = await cluster.until("a", lambda pod: waiting(pod).get("reason") == "InvalidImageName")
        assert "Not/A/Name" in waiting(pod)["message"]


async def test_a_missing_image_is_tried_again_with_growing_pauses_and_found_later(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, registry: str
) -> None:
    async with cluster.node():
        await cluster.create("a", {"image": f"{registry}/test/later:1"})
        pod = await cluster.until("a", lambda pod: waiting(pod).get("reason") == "ErrImagePull")
        message = waiting(pod)["message"]
        assert "not found" in message or "manifest unknown" in message
        pod = await cluster.until("a", lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
        assert waiting(pod)["message"].startswith(f'Back-off pulling image "{registry}/test/later:1": ErrImagePull: ')
        runtime.push(registry, "test/later:1", image_archive("x:1", command=SLEEP))
        await cluster.until("a", is_ready)


async def test_a_registry_that_is_not_there(cluster: ContainerCluster) -> None:
    async with cluster.node():
        await cluster.create("a", {"image": "127.0.0.1:1/a:1"})
        pod = await cluster.until("a", lambda pod: waiting(pod).get("reason") in FAILED_PULLS)
        assert "connection refused" in waiting(pod)["message"]
        pod = await cluster.until("a", lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
        await cluster.delete("a")  # a pod whose image does not come can be deleted


async def secret(cluster: ContainerCluster, name: str, registry: str, credentials: str) -> JsonObject:
    auth = base64.b64encode(credentials.encode()).decode()
    config = json.dumps({"auths": {registry: {"auth": auth}}}).encode()
    document = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(config).decode()},
    }
    await cluster.client.create(SECRETS, document, "default")
    return {"name": name}


async def test_credentials(
    cluster: ContainerCluster, runtime: RuntimeUnderTest, capfd: pytest.CaptureFixture[str]
) -> None:
    private = runtime.registry(user="reader", password="pass-word-17")
    archive = image_archive("x:1", command=SLEEP)
    image = runtime.push(private, "team/app:1", archive, "reader:pass-word-17")
    async with cluster.node():
        wrong = await secret(cluster, "wrong", private, "reader:wrong-word-23")
        right = await secret(cluster, "right", f"{private}/team", "reader:pass-word-17")
        await cluster.create("none", {"image": image})
        await cluster.create("bad", {"image": image}, imagePullSecrets=[wrong])
        for name in ("none", "bad"):
            pod = await cluster.until(name, lambda pod: waiting(pod).get("reason") == "ErrImagePull")
            assert "imagePullSecrets" in waiting(pod)["message"], "advice for a registry that refuses"
        assert f"1 login for {private} was tried: check imagePullSecrets" in waiting(pod)["message"]
        await cluster.run("good", {"image": image}, imagePullSecrets=[{"name": "missing"}, wrong, right])
        assert "default/missing: not found" in await cluster.until_event("good", "FailedToRetrieveImagePullSecret")
        said = str([await cluster.events(name) for name in ("none", "bad", "good")])
    logged = capfd.readouterr()
    for word in ("pass-word-17", "wrong-word-23"):
        assert word not in logged.err + logged.out + said, "credentials were published"


async def test_credentials_of_the_node(cluster: ContainerCluster, runtime: RuntimeUnderTest) -> None:
    private = runtime.registry(user="node", password="secret")
    image = runtime.push(private, "app:1", image_archive("x:1", command=SLEEP), "node:secret")
    file = runtime.directory / "credentials.json"
    file.write_text(json.dumps({"auths": {private: {"username": "node", "password": "secret"}}}))
    async with cluster.node(credentials=file):
        await cluster.run("a", {"image": image})
