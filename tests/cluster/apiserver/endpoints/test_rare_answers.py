"""Answers in corners that only step-by-step comparison with a real server shows; all are those of Kubernetes 1.36."""

from tests.cluster.apiserver.caller import Api

from kohort.objects.jsontypes import JsonObject

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/widgets"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def deployment() -> JsonObject:
    pod = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    return {"metadata": {"name": "w"}, "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": pod}}


async def define_widgets(api: Api, **version: object) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}],
    }
    assert (await api.post(DEFINITIONS, {"metadata": {"name": "widgets.example.com"}, "spec": spec})).code == 201


async def test_owners_in_a_version_that_nobody_serves_are_forgotten(api: Api) -> None:
    await api.config_map("a")
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "old/v9", "fieldsType": "FieldsV1", "fieldsV1": {}}
    entry["fieldsV1"] = {"f:data": {}}
    forgotten = await api.patch(f"{MAPS}/a", {"metadata": {"managedFields": [entry]}})
    assert (forgotten.code, "managedFields" in forgotten.meta) == (200, False)


async def test_a_patch_of_a_scale_may_name_its_object(api: Api) -> None:
    await api.post(DEPLOYMENTS, deployment())
    refused = await api.patch(f"{DEPLOYMENTS}/w/scale", {"metadata": {"uid": "other"}, "spec": {"replicas": 4}})
    assert (refused.code, refused.json["details"]["kind"]) == (409, "deployments/scale")
    assert refused.message.startswith(
        'Operation cannot be fulfilled on deployments/scale.apps "w": Precondition failed: UID in precondition: other'
    )


async def test_objects_without_a_namespace_cannot_be_selected_by_one(api: Api) -> None:
    await define_widgets(api)
    refused = await api.get(WIDGETS, fieldSelector="metadata.namespace=default")
    assert (refused.code, refused.message) == (400, "field label not supported: metadata.namespace")


async def test_the_scale_of_a_custom_resource_as_a_table(api: Api) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    await define_widgets(api, subresources={"status": {}, "scale": paths})
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 0}}
    assert (await api.post(WIDGETS, body)).code == 201
    shown = await api.get(f"{WIDGETS}/a/scale", TABLE)
    columns = [(one["name"], one["type"], one["format"]) for one in shown.json["columnDefinitions"]]
    assert columns[:2] == [("Name", "string", "name"), ("Desired", "integer", "")]
    assert columns[2:] == [("Available", "integer", ""), ("Age", "date", "")]
    assert shown.json["rows"][0]["cells"][:3] == ["a", None, 0]


async def test_no_rows_of_kinds_without_columns_are_null(api: Api) -> None:
    assert (await api.get("/api/v1/namespaces/default/limitranges", TABLE)).json["rows"] is None
    assert (await api.get(MAPS, TABLE)).json["rows"] == []
