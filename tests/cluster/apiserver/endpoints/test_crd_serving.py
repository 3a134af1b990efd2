"""Definitions of custom resources: served with `Established`, gone with their last object (specification 3.1)."""

from tests.cluster.apiserver.caller import AllowAll, Answer, Api

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import errors
from kohort.objects.json_types import Json, JsonObject

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}}},
        "status": {"type": "object", "properties": {"size": {"type": "integer"}}},
    },
}


def version(name: str = "v1", *, storage: bool = True, schema: JsonObject = SCHEMA, **more: Json) -> JsonObject:
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def definition(*versions: JsonObject, plural: str = "widgets", kind: str = "Widget") -> JsonObject:
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": list(versions) or [version()],
        },
    }


async def define(api: Api, document: JsonObject) -> Answer:
    answer = await api.post(DEFINITIONS, document)
    assert answer.code == 201, answer.raw
    return answer


async def conditions(api: Api, name: str = "widgets.example.com") -> dict[str, str]:
    found = await api.get(f"{DEFINITIONS}/{name}")
    return {one["type"]: one["status"] for one in found.json["status"]["conditions"]}


async def widget(api: Api, name: str, **content: Json) -> Answer:
    metadata = content.pop("metadata", {})
    head = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, **metadata}}
    return await api.post(WIDGETS, {**head, **content})


async def test_what_is_established_is_served(api: Api) -> None:
    assert (await api.get(WIDGETS)).code == 404
    created = await define(api, definition())
    assert created.json["status"]["conditions"] is None
    assert await conditions(api) == {"NamesAccepted": "True", "Established": "True"}
    assert (await api.get(WIDGETS)).json["kind"] == "WidgetList"
    groups = [group["name"] for group in (await api.get("/apis")).json["groups"]]
    assert groups[-1] == "example.com"
    assert "apis/example.com/v1" in (await api.get("/openapi/v3")).json["paths"]


async def test_objects_are_pruned_and_numbered(api: Api) -> None:
    await define(api, definition(version(subresources={"status": {}})))
    created = await widget(api, "a", spec={"size": 1, "bogus": 2}, status={"size": 9})
    assert (created.code, created.json["spec"]) == (201, {"size": 1})
    assert "status" not in created.json
    assert created.warnings == ['299 - "unknown field \\"spec.bogus\\""']
    changed = await api.patch(f"{WIDGETS}/a", {"spec": {"size": 2}, "status": {"size": 3}})
    assert (changed.meta["generation"], changed.json.get("status")) == (2, None)
    reported = await api.patch(f"{WIDGETS}/a/status", {"spec": {"size": 7}, "status": {"size": 3}})
    assert (reported.json["spec"], reported.json["status"]) == ({"size": 2}, {"size": 3})
    assert reported.meta["generation"] == 2


async def test_a_custom_resource_must_say_which_version_it_changes(api: Api) -> None:
    await define(api, definition())
    created = await widget(api, "a", spec={"size": 1})
    body = created.json
    del body["metadata"]["resourceVersion"]
    refused = await api.put(f"{WIDGETS}/a", body)
    assert refused.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")
    assert (await api.patch(f"{WIDGETS}/a", {}, "application/strategic-merge-patch+json")).code == 415


async def test_a_custom_resource_must_say_what_it_is(api: Api) -> None:
    await define(api, definition())
    nameless = await api.post(WIDGETS, {"metadata": {"name": "a"}})
    assert nameless.message.startswith(
        "the object provided is unrecognized (must be of type Widget): Object 'Kind' is "
    )
    other = await widget(api, "a", kind="Other")
    assert (other.code, other.message) == (
        422,
        'Other.example.com "a" is invalid: kind: Invalid value: "Other": must be Widget',
    )


async def test_new_defaults_apply_to_old_objects_when_they_are_read(api: Api) -> None:
    await define(api, definition())
    before = await widget(api, "a", spec={"size": 1})
    schema = {**SCHEMA, "properties": {"spec": {"type": "object", "properties": {}}}}
    schema["properties"]["spec"]["properties"] = {
        "size": {"type": "integer"},
        "color": {"type": "string", "default": "red"},
    }
    patch = {"spec": {"versions": [version(schema=schema)]}}
    assert (await api.patch(f"{DEFINITIONS}/widgets.example.com", patch)).code == 200
    after = await api.get(f"{WIDGETS}/a")
    assert after.json["spec"] == {"size": 1, "color": "red"}
    assert after.meta["resourceVersion"] == before.meta["resourceVersion"]
    assert [item["spec"] for item in (await api.get(WIDGETS)).json["items"]] == [{"size": 1, "color": "red"}]


async def test_fields_that_a_changed_definition_cannot_read_have_no_owner(api: Api) -> None:
    await define(api, definition())
    await widget(api, "a", spec={"color": "red"})
    patch = {"spec": {"versions": [version(schema=sized(color={"type": "integer"}))]}}
    await api.patch(f"{DEFINITIONS}/widgets.example.com", patch)
    labelled = await api.patch(f"{WIDGETS}/a", {"metadata": {"labels": {"l": "1"}}})
    assert (labelled.code, labelled.json["spec"], "managedFields" in labelled.meta) == (200, {"color": "red"}, False)


async def test_every_served_version_shows_the_same_objects(api: Api) -> None:
    await define(api, definition(version("v1"), version("v1beta1", storage=False)))
    await widget(api, "a", spec={"size": 1})
    beta = await api.get(WIDGETS.replace("/v1/", "/v1beta1/"))
    (item,) = beta.json["items"]
    assert (item["apiVersion"], item["spec"]) == ("example.com/v1beta1", {"size": 1})
    groups = {group["name"]: group for group in (await api.get("/apis")).json["groups"]}
    assert [one["version"] for one in groups["example.com"]["versions"]] == ["v1", "v1beta1"]


def sized(**properties: Json) -> JsonObject:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


async def test_a_version_shows_what_its_schema_knows_with_the_defaults_of_the_stored_one(api: Api) -> None:
    """Answers of Kubernetes 1.36: defaults are those of the version that an object is stored in."""
    number, text = {"type": "integer"}, {"type": "string"}
    newer = version("v1", schema=sized(size=number, color={**text, "default": "red"}))
    older = sized(size=number, shape={**text, "default": "round"})
    await define(api, definition(version("v1beta1", schema=older)))
    beta = WIDGETS.replace("/v1/", "/v1beta1/")
    old = {"apiVersion": "example.com/v1beta1", "kind": "Widget", "metadata": {"name": "old"}, "spec": {"size": 1}}
    assert (await api.post(beta, old)).code == 201
    both = {"spec": {"versions": [version("v1beta1", schema=older, storage=False), newer]}}
    assert (await api.patch(f"{DEFINITIONS}/widgets.example.com", both)).code == 200
    await widget(api, "new", spec={"size": 2})
    late = {**old, "metadata": {"name": "late"}, "spec": {"size": 3, "shape": "flat"}}
    assert (await api.post(beta, late)).json["spec"] == {"size": 3}
    seen = {
        path: {item["metadata"]["name"]: item["spec"] for item in (await api.get(path)).json["items"]}
        for path in (WIDGETS, beta)
    }
    assert seen[WIDGETS] == {
        "old": {"size": 1},
        "new": {"size": 2, "color": "red"},
        "late": {"size": 3, "color": "red"},
    }
    assert seen[beta] == {"old": {"size": 1, "shape": "round"}, "new": {"size": 2}, "late": {"size": 3}}


async def test_names_that_are_taken_are_not_served(api: Api) -> None:
    await define(api, definition())
    await define(api, definition(plural="gadgets", kind="Widget"))
    assert await conditions(api, "gadgets.example.com") == {"NamesAccepted": "False", "Established": "False"}
    assert (await api.get("/apis/example.com/v1/gadgets")).code == 404
    await api.delete(f"{DEFINITIONS}/widgets.example.com")
    await api.settle()
    assert await conditions(api, "gadgets.example.com") == {"NamesAccepted": "True", "Established": "True"}
    assert (await api.get("/apis/example.com/v1/gadgets")).code == 200


class NoDeletions:
    """Admission that lets nobody delete widgets."""

    async def mutate(self, attributes: Attributes) -> None: ...

    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation == "DELETE" and attributes.resource.plural == "widgets":
            raise errors.forbidden("widgets", attributes.name, "nobody may")


async def test_nobody_can_refuse_the_deletion_of_objects_whose_definition_goes() -> None:
    """Kubernetes deletes them without admission; a refusal would keep the definition, and its names, for ever."""
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll(), admission=NoDeletions())
    api = Api(server, AllowAll())
    await define(api, definition())
    await widget(api, "a")
    assert (await api.delete(f"{WIDGETS}/a")).code == 403
    await api.delete(f"{DEFINITIONS}/widgets.example.com")
    await api.settle()
    assert (await api.get(f"{DEFINITIONS}/widgets.example.com")).code == 404
    await server.close()


async def test_a_definition_waits_for_the_finalizers_of_its_objects(api: Api) -> None:
    await define(api, definition())
    await widget(api, "free")
    await widget(api, "held", metadata={"finalizers": ["example.com/f"]})
    gone = await api.delete(f"{DEFINITIONS}/widgets.example.com")
    assert gone.meta["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    await api.settle()
    assert (await conditions(api))["Terminating"] == "True"
    going = (await api.get(f"{DEFINITIONS}/widgets.example.com")).json["status"]["conditions"][-1]
    assert (going["reason"], going["message"]) == (
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    )
    assert (await api.get(WIDGETS)).names == ["held"]
    refused = await widget(api, "late")
    assert (refused.code, refused.reason) == (403, "Forbidden")
    await api.patch(f"{WIDGETS}/held", {"metadata": {"finalizers": None}})
    await api.settle()
    assert (await api.get(f"{DEFINITIONS}/widgets.example.com")).code == 404
    assert (await api.get(WIDGETS)).raw == b"404 page not found\n"


async def test_a_restart_serves_what_was_established(api: Api) -> None:
    await define(api, definition())
    await widget(api, "a", spec={"size": 1})
    again = api.restarted()
    assert (await again.get(WIDGETS)).code == 404
    await again.server.load()
    assert (await again.get(WIDGETS)).names == ["a"]
