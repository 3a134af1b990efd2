"""Create, update, patch (specification 1.12)."""

import asyncio
import re

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.storage.store import open_store

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_a_create_is_answered_with_what_is_stored(api: Api) -> None:
    created = await api.config_map("a")
    assert created.code == 201
    assert created.json == (await api.get(f"{CONFIG_MAPS}/a")).json
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", created.meta["uid"])
    assert created.meta["namespace"] == "default"
    (entry,) = created.meta["managedFields"]
    assert (entry["manager"], entry["operation"], entry["apiVersion"]) == ("tests", "Update", "v1")


async def test_what_belongs_to_the_server_cannot_be_sent(api: Api) -> None:
    sent = {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "deletionTimestamp": "2001-01-01T00:00:00Z"}
    created = await api.config_map("a", **sent)
    assert created.meta["uid"] != "mine"
    assert not created.meta["creationTimestamp"].startswith("2001")
    assert "deletionTimestamp" not in created.meta


async def test_generated_names(api: Api) -> None:
    names = set()
    for _ in range(20):
        created = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "x" * 70}})
        assert created.code == 201
        names.add(created.meta["name"])
    assert len(names) == 20
    assert all(re.fullmatch(r"x{58}[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)


async def test_an_existing_name(api: Api) -> None:
    await api.config_map("a", finalizers=["example.com/f"])
    again = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (again.code, again.message) == (409, 'configmaps "a" already exists')
    await api.delete(f"{CONFIG_MAPS}/a")
    again = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert again.message == 'object is being deleted: configmaps "a" already exists'


@pytest.mark.parametrize(
    ("path", "body", "code", "message"),
    [
        (
            CONFIG_MAPS,
            {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            CONFIG_MAPS,
            {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "a"}},
            400,
            'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): ',
        ),
        (
            CONFIG_MAPS,
            {"kind": "ConfigMap", "apiVersion": "apps/v1", "metadata": {"name": "a"}},
            400,
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version',
        ),
        (CONFIG_MAPS, {"metadata": {}}, 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or '),
        (CONFIG_MAPS, {"metadata": {"name": "a", "resourceVersion": "5"}}, 500, "resourceVersion should not be set"),
        ("/api/v1/configmaps", {"metadata": {"name": "a"}}, 405, "the server does not allow this method"),
        (f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}}, 405, "the server does not allow this method"),
        ("/api/v1/namespaces/default/nopes", {"metadata": {"name": "a"}}, 404, "the server could not find"),
        (CONFIG_MAPS, b"{", 400, "the object provided is unrecognized (must be of type ConfigMap): "),
    ],
)
async def test_what_a_create_refuses(api: Api, path: str, body: object, code: int, message: str) -> None:
    refused = await api.post(path, body)
    assert refused.code == code
    assert refused.message.startswith(message)


async def test_unknown_fields_are_ignored_reported_or_refused(api: Api) -> None:
    body = {"metadata": {"name": "a"}, "data": {"k": "v"}, "bogus": 1}
    warned = await api.post(CONFIG_MAPS, body, dryRun="All")
    assert (warned.code, warned.warnings) == (201, ['299 - "unknown field \\"bogus\\""'])
    assert "bogus" not in warned.json
    silent = await api.post(CONFIG_MAPS, body, dryRun="All", fieldValidation="Ignore")
    assert (silent.code, silent.warnings) == (201, [])
    refused = await api.post(CONFIG_MAPS, body, dryRun="All", fieldValidation="Strict")
    assert (refused.code, refused.message) == (
        400,
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "bogus"',
    )


async def test_a_dry_run_stores_nothing(api: Api) -> None:
    created = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}}, dryRun="All")
    assert created.code == 201
    assert "resourceVersion" not in created.meta
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 404
    stored = await api.config_map("a")
    changed = await api.patch(f"{CONFIG_MAPS}/a", {"data": {"z": "1"}}, dryRun="All")
    assert (changed.json["data"], changed.meta["resourceVersion"]) == (
        {"k": "v", "z": "1"},
        stored.meta["resourceVersion"],
    )
    assert (await api.get(f"{CONFIG_MAPS}/a")).json == stored.json


async def test_optimistic_locking(api: Api) -> None:
    created = await api.config_map("a")
    await api.patch(f"{CONFIG_MAPS}/a", {"data": {"z": "1"}})
    stale = {**created.json, "data": {"q": "1"}}
    refused = await api.put(f"{CONFIG_MAPS}/a", stale)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.endswith(
        "the object has been modified; please apply your changes to the latest version and try again"
    )
    revision = created.meta["resourceVersion"]
    assert (await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"resourceVersion": revision}})).code == 409
    stale["metadata"].pop("resourceVersion")
    assert (await api.put(f"{CONFIG_MAPS}/a", stale)).json["data"] == {"q": "1"}


async def test_patches_without_a_revision_never_lose_a_race(api: Api) -> None:
    await api.config_map("a")
    answers = await asyncio.gather(
        *(api.patch(f"{CONFIG_MAPS}/a", {"data": {f"k{number}": "1"}}) for number in range(20))
    )
    assert [answer.code for answer in answers] == [200] * 20
    assert len((await api.get(f"{CONFIG_MAPS}/a")).json["data"]) == 21


async def test_a_write_that_changes_nothing_is_no_write(api: Api) -> None:
    created = await api.config_map("a")
    for answer in (
        await api.put(f"{CONFIG_MAPS}/a", created.json),
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}),
        await api.patch(f"{CONFIG_MAPS}/a", {}),
        await api.patch(f"{CONFIG_MAPS}/a", {"data": {"missing": None}}),
    ):
        assert (answer.code, answer.meta["resourceVersion"]) == (200, created.meta["resourceVersion"])


async def test_names_cannot_change(api: Api) -> None:
    created = await api.config_map("a")
    other = {**created.json, "metadata": {**created.meta, "name": "b"}}
    refused = await api.put(f"{CONFIG_MAPS}/a", other)
    assert refused.message == "the name of the object (b) does not match the name on the URL (a)"
    assert (await api.patch(f"{CONFIG_MAPS}/a", {"metadata": {"name": "b"}})).code == 400
    twin = {**created.json, "metadata": {**created.meta, "uid": "11111111-2222-3333-4444-555555555555"}}
    assert (await api.put(f"{CONFIG_MAPS}/a", twin)).code == 409


async def test_owners_are_listed_once(api: Api) -> None:
    owner = {"apiVersion": "v1", "kind": "X", "name": "n", "uid": "u"}
    created = await api.config_map("a", ownerReferences=[owner, dict(owner)])
    assert created.meta["ownerReferences"] == [owner]
    assert created.warnings[0].endswith('duplicate UID(s) observed: u"')


async def test_patch_media_types(api: Api) -> None:
    await api.config_map("a")
    refused = await api.patch(f"{CONFIG_MAPS}/a", {}, "application/json")
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    assert refused.message == "415: Unsupported Media Type"
    json_patch = [{"op": "add", "path": "/data/z", "value": "1"}]
    patched = await api.patch(f"{CONFIG_MAPS}/a", json_patch, "application/json-patch+json; charset=utf-8")
    assert patched.json["data"] == {"k": "v", "z": "1"}


async def test_apply_creates_and_owns(api: Api) -> None:
    intent = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}
    created = await api.patch(f"{CONFIG_MAPS}/a", intent, "application/apply-patch+yaml", fieldManager="m")
    assert (created.code, created.json["data"]) == (201, {"x": "1"})
    assert created.meta["managedFields"][0]["operation"] == "Apply"
    other = {**intent, "data": {"x": "2"}}
    refused = await api.patch(f"{CONFIG_MAPS}/a", other, "application/apply-patch+yaml", fieldManager="n")
    assert (refused.code, refused.reason) == (409, "Conflict")
    forced = await api.patch(f"{CONFIG_MAPS}/a", other, "application/apply-patch+yaml", fieldManager="n", force="true")
    assert (forced.code, forced.json["data"]) == (200, {"x": "2"})


class Recorder:
    """An admission step that notes what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, bool]] = []

    async def mutate(self, attributes: Attributes) -> None:
        self._note("mutate", attributes)
        if attributes.object is not None:
            attributes.object["metadata"].setdefault("annotations", {})["seen"] = attributes.operation

    async def validate(self, attributes: Attributes) -> None:
        self._note("validate", attributes)

    def _note(self, phase: str, attributes: Attributes) -> None:
        obj = attributes.object or {"metadata": {}}
        self.seen.append((phase, attributes.operation, attributes.name, "uid" in obj["metadata"]))


async def test_mutating_admission_sees_neither_uid_nor_generated_name() -> None:
    recorder = Recorder()
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll(), admission=recorder)
    api = Api(server, AllowAll())
    created = await api.post(CONFIG_MAPS, {"metadata": {"generateName": "a-"}, "data": {"k": "v"}})
    name = created.meta["name"]
    assert created.meta["annotations"] == {"seen": "CREATE"}
    owned = created.meta["managedFields"][0]["fieldsV1"]
    assert "f:metadata" not in owned or "f:annotations" not in owned["f:metadata"]
    await api.patch(f"{CONFIG_MAPS}/{name}", {"data": {"z": "1"}})
    await api.delete(f"{CONFIG_MAPS}/{name}")
    assert recorder.seen == [
        ("mutate", "CREATE", "", False),
        ("validate", "CREATE", name, True),
        ("mutate", "UPDATE", name, True),
        ("validate", "UPDATE", name, True),
        ("mutate", "DELETE", name, False),
        ("validate", "DELETE", name, False),
    ]
    await server.close()


class Sleepy(Recorder):
    """An admission step that takes its time."""

    async def validate(self, attributes: Attributes) -> None:
        await asyncio.sleep(3600)


async def test_a_write_that_takes_too_long_is_given_up() -> None:
    server = ApiServer(open_store(None), Catalog(builtin_kinds()), AllowAll(), admission=Sleepy())
    api = Api(server, AllowAll())
    late = await api.post(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (late.code, late.reason) == (504, "Timeout")
    assert (await api.get(f"{CONFIG_MAPS}/a")).code == 404
    await server.close()
