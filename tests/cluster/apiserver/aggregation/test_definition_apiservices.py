"""APIServices of group versions that definitions add: as `kubectl get apiservices` shows them on Kubernetes."""

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api
from tests.cluster.apiserver.endpoints.test_crd_serving import DEFINITIONS, define, definition, version

from kohort.cluster.apiserver.aggregation.definition_apiservices import (
    ApiServiceAction,
    api_service_action,
    api_service_of_definition,
)
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import JsonObject

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"
LABEL = "kube-aggregator.kubernetes.io/automanaged"


@pytest.fixture
def api() -> Api:
    authorizer = AllowAll()
    return Api(ApiServer(open_store(None), Catalog(builtin_kinds()), authorizer), authorizer)


async def names(api: Api) -> list[str]:
    return [name for name in (await api.get(PATH)).names if name.endswith("example.com")]


async def test_every_served_version_has_one(api: Api) -> None:
    hidden = {**version("v1alpha1", storage=False), "served": False}
    await define(api, definition(version("v1"), version("v1beta1", storage=False), hidden))
    assert await names(api) == ["v1.example.com", "v1beta1.example.com"]
    found = (await api.get(f"{PATH}/v1.example.com")).json
    assert found["metadata"]["labels"] == {LABEL: "true"}
    assert found["spec"] == {
        "group": "example.com",
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 100,
    }
    assert [(one["type"], one["reason"]) for one in found["status"]["conditions"]] == [("Available", "Local")]


async def test_it_goes_with_the_last_definition_that_serves_the_version(api: Api) -> None:
    await define(api, definition())
    await define(api, definition(plural="gadgets", kind="Gadget"))
    await api.delete(f"{DEFINITIONS}/widgets.example.com")
    await api.settle()
    assert await names(api) == ["v1.example.com"]
    await api.delete(f"{DEFINITIONS}/gadgets.example.com")
    await api.settle()
    assert await names(api) == []


async def test_it_goes_with_the_version(api: Api) -> None:
    await define(api, definition(version("v1"), version("v1beta1", storage=False)))
    withdrawn = {**version("v1beta1", storage=False), "served": False}
    patch = {"spec": {"versions": [version("v1"), withdrawn]}}
    assert (await api.patch(f"{DEFINITIONS}/widgets.example.com", patch)).code == 200
    assert await names(api) == ["v1.example.com"]


async def test_what_a_user_deletes_or_edits_is_restored(api: Api) -> None:
    await define(api, definition())
    assert (await api.delete(f"{PATH}/v1.example.com")).code == 200
    assert await names(api) == ["v1.example.com"]
    await api.patch(f"{PATH}/v1.example.com", {"spec": {"versionPriority": 7}})
    assert (await api.get(f"{PATH}/v1.example.com")).json["spec"]["versionPriority"] == 100


async def test_a_users_own_is_left_alone(api: Api) -> None:
    spec = {"group": "example.com", "version": "v1", "groupPriorityMinimum": 50, "versionPriority": 5}
    await api.post(PATH, {"metadata": {"name": "v1.example.com"}, "spec": spec})
    await define(api, definition())
    assert (await api.get(f"{PATH}/v1.example.com")).json["spec"] == spec
    await api.delete(f"{DEFINITIONS}/widgets.example.com")
    await api.settle()
    assert await names(api) == ["v1.example.com"]


WANTED = api_service_of_definition("example.com", "v1")
EDITED = {**WANTED, "spec": {**WANTED["spec"], "versionPriority": 1}}
FOREIGN: JsonObject = {"metadata": {"name": "v1.example.com"}, "spec": {}}


@pytest.mark.parametrize(
    ("wanted", "found", "action"),
    [
        (None, None, ApiServiceAction.NONE),
        (WANTED, None, ApiServiceAction.CREATE),
        (WANTED, WANTED, ApiServiceAction.NONE),
        (WANTED, EDITED, ApiServiceAction.RESTORE),
        (None, WANTED, ApiServiceAction.DELETE),
        (None, FOREIGN, ApiServiceAction.NONE),
        (WANTED, FOREIGN, ApiServiceAction.NONE),
    ],
)
def test_what_is_done(wanted: JsonObject | None, found: JsonObject | None, action: ApiServiceAction) -> None:
    assert api_service_action(wanted, found) == action


async def test_a_server_that_starts_adds_those_that_are_missing() -> None:
    """As after an upgrade from a version that did not have them."""
    store = open_store(None)
    first, _ = await assemble(store)
    await define(Api(first, AllowAll()), definition())
    made = store.get("apiservices.apiregistration.k8s.io", "", "v1.example.com")
    assert made is not None
    await store.write(made.bucket, "", made.name, None, expected=made.revision)
    second, _ = await assemble(store)
    assert await names(Api(second, AllowAll())) == ["v1.example.com"]
    await second.close()
