"""OpenAPI documents: what kubectl and other readers look for in them."""

import json

import msgspec
import pytest

from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.kinds.model import Kind, Strategy, Subresource
from kohort.cluster.apiserver.openapi.document import OpenApi, document
from kohort.cluster.apiserver.schema.structural import compile_crd_schema
from kohort.kube.resources import Resource
from kohort.objects.json_types import Json, JsonObject

KINDS = builtin_kinds()
PATCH_PARAMETERS = ["dryRun", "fieldManager", "fieldValidation", "force"]

SCHEMA = {
    "type": "object",
    "description": "top",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "integer", "format": "int32", "default": 5},
                "n": {"type": "string", "nullable": True, "enum": ["a", "b"]},
                "either": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "e": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        }
    },
}


def widget(schema: JsonObject = SCHEMA, version: str = "v1") -> Kind:
    node = compile_crd_schema(schema)
    return Kind(
        resource=Resource("q.example.com", version, "widgets", "Widget"),
        schema=lambda: node,
        strategy=Strategy(),
        singular="widget",
        list_kind="WidgetList",
        subresources={
            "status": Subresource("status", "Widget", ("get", "patch", "update")),
            "scale": Subresource("scale", "Scale", ("get", "patch", "update"), "autoscaling", "v1"),
        },
        custom=True,
    )


def body(api: OpenApi, path: str) -> JsonObject:
    published = api.document(path)
    assert published is not None
    decoded: JsonObject = json.loads(published.body)
    return decoded


def undescribed(schema: JsonObject) -> JsonObject:
    assert schema["description"]
    return {key: value for key, value in schema.items() if key != "description"}


def references(value: Json) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*[references(inner) for inner in value.values()])
    if isinstance(value, list):
        return set().union(*[references(inner) for inner in value])
    return set()


def test_the_index_lists_what_the_real_one_lists() -> None:
    paths = {path: entry["serverRelativeURL"].split("?")[0] for path, entry in OpenApi(KINDS).index()["paths"].items()}
    for path in ("api/v1", "apis/apps/v1", "apis/batch/v1", "version", "apis/apps", "apis"):
        assert paths[path] == f"/openapi/v3/{path}"


def test_every_url_of_the_index_has_a_document_with_that_hash() -> None:
    api = OpenApi([*KINDS, widget()])
    for path, entry in api.index()["paths"].items():
        published = api.document(path)
        assert published is not None
        assert entry["serverRelativeURL"].endswith(f"?hash={published.hash}")
    assert api.document("apis/nope/v1") is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "patch" in kind.verbs], ids=lambda kind: kind.bucket)
def test_every_kind_has_a_patch_operation_with_the_parameters_that_kubectl_looks_for(kind: Kind) -> None:
    resource = kind.resource
    found = document(resource.group, resource.version, [kind])
    path = resource.path("{namespace}", "{name}")
    operation = found["paths"][path]["patch"]
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    assert operation["x-kubernetes-group-version-kind"] == gvk
    assert [parameter["name"] for parameter in operation["parameters"]] == PATCH_PARAMETERS
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert gvk in found["components"]["schemas"][schema]["x-kubernetes-group-version-kind"]


@pytest.mark.parametrize("path", sorted(OpenApi([*KINDS, widget()]).paths()))
def test_no_reference_leads_nowhere(path: str) -> None:
    found = body(OpenApi([*KINDS, widget()]), path)
    names = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert references(found) <= names


def test_the_schema_of_a_container() -> None:
    schemas = body(OpenApi(KINDS), "api/v1")["components"]["schemas"]
    container = schemas["io.k8s.api.core.v1.Container"]
    assert container["required"] == ["name"]
    fields = {name: undescribed(schema) for name, schema in container["properties"].items()}
    assert fields["ports"] == {
        "type": "array",
        "items": {
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.ContainerPort"}],
            "default": {},
        },
        "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "containerPort",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert fields["imagePullPolicy"] == {"type": "string", "enum": ["Always", "IfNotPresent", "Never"]}
    assert fields["name"] == {"type": "string", "default": ""}


def test_a_custom_resource_is_published_from_its_definition() -> None:
    found = body(OpenApi([widget()]), "apis/q.example.com/v1")
    schema = found["components"]["schemas"]["com.example.q.v1.Widget"]
    spec = schema["properties"]["spec"]
    assert schema["description"] == "top"
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "q.example.com", "version": "v1", "kind": "Widget"}]
    assert spec["properties"]["n"] == {"type": "string", "nullable": True, "enum": ["a", "b"]}
    assert set(spec["properties"]["e"]["properties"]) == {"apiVersion", "kind", "metadata"}
    patch = found["paths"]["/apis/q.example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"]
    assert patch["operationId"] == "patchQExampleComV1NamespacedWidget"
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    scale = found["paths"]["/apis/q.example.com/v1/namespaces/{namespace}/widgets/{name}/scale"]["get"]
    assert scale["x-kubernetes-group-version-kind"] == {
        "group": "q.example.com",
        "version": "v1",
        "kind": "Widget",
    }


def test_what_a_definition_does_not_describe_is_described_for_it() -> None:
    """As kube-apiserver 1.36.4 publishes the same definition."""
    schema = {"type": "object", "properties": {"is": {"x-kubernetes-int-or-string": True}}}
    published = body(OpenApi([widget(schema)]), "apis/q.example.com/v1")
    schemas = published["components"]["schemas"]
    one, many = (schemas[f"com.example.q.v1.{kind}"] for kind in ("Widget", "WidgetList"))
    assert one["properties"]["is"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
    assert one["properties"]["metadata"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}],
        "description": f"Standard object's metadata. More info: {conventions}#metadata",
    }
    assert many["description"] == "WidgetList is a list of Widget"
    assert many["properties"]["items"]["description"] == f"List of widgets. More info: {conventions}"
    widgets = "/apis/q.example.com/v1/namespaces/{namespace}/widgets"
    assert list(published["paths"]) == [
        widgets,
        f"{widgets}/{{name}}",
        f"{widgets}/{{name}}/scale",
        f"{widgets}/{{name}}/status",
        "/apis/q.example.com/v1/widgets",
    ]


def test_publishing_does_not_touch_the_definition() -> None:
    before = json.dumps(SCHEMA)
    body(OpenApi([widget()]), "apis/q.example.com/v1")
    OpenApi([widget()]).swagger()
    assert json.dumps(SCHEMA) == before


def test_a_renamed_version_is_published_under_its_new_name() -> None:
    first = OpenApi([widget(version="v3")])
    assert "com.example.q.v3.Widget" in json.loads(first.swagger().body)["definitions"]
    second = json.loads(OpenApi([widget(version="v4")], first).swagger().body)["definitions"]
    assert "com.example.q.v4.Widget" in second
    assert "com.example.q.v3.Widget" not in second


def test_only_documents_whose_kinds_changed_are_built_again() -> None:
    first = OpenApi([*KINDS, widget()])
    core, widgets = first.document("api/v1"), first.document("apis/q.example.com/v1")
    changed = widget({**SCHEMA, "description": "other"})
    second = OpenApi([*KINDS, changed], first)
    assert second.document("api/v1") is core
    again = second.document("apis/q.example.com/v1")
    assert again is not None and widgets is not None
    assert again.hash != widgets.hash
    assert msgspec.json.decode(again.body)["components"]["schemas"]["com.example.q.v1.Widget"]["description"] == "other"


def test_swagger_names_no_property_of_a_kind_that_keeps_unknown_fields() -> None:
    """kubectl refuses every property that is not named once one is."""
    kind = widget({"type": "object", "description": "any", "x-kubernetes-preserve-unknown-fields": True})
    identity = [{"group": "q.example.com", "version": "v1", "kind": "Widget"}]
    found = json.loads(OpenApi([kind]).swagger().body)["definitions"]["com.example.q.v1.Widget"]
    assert found == {"type": "object", "x-kubernetes-group-version-kind": identity}
    third = body(OpenApi([kind]), "apis/q.example.com/v1")["components"]["schemas"]["com.example.q.v1.Widget"]
    assert (third["description"], "metadata" in third["properties"]) == ("any", True)


def test_metadata_is_explained_in_the_words_that_clients_look_for() -> None:
    schemas = body(OpenApi([widget()]), "apis/q.example.com/v1")["components"]["schemas"]
    created = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["creationTimestamp"]
    assert created["description"].startswith("CreationTimestamp is a timestamp")


def test_swagger_as_the_real_server_has_it() -> None:
    found = json.loads(OpenApi([*KINDS, widget()]).swagger().body)
    definitions = found["definitions"]
    containers = definitions["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    ports = definitions["io.k8s.api.core.v1.ServiceSpec"]["properties"]["ports"]
    assert (found["swagger"], found["info"]["title"]) == ("2.0", "Kubernetes")
    assert definitions["io.k8s.api.core.v1.Pod"]["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "Pod", "version": "v1"}
    ]
    assert {key: value for key, value in containers.items() if key.startswith("x-")} == {
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert {key: value for key, value in ports.items() if key.startswith("x-")} == {
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": "port",
        "x-kubernetes-patch-strategy": "merge",
    }
    assert references(found) <= {f"#/definitions/{name}" for name in definitions}
    spec = definitions["com.example.q.v1.Widget"]["properties"]["spec"]["properties"]
    assert spec["n"] == {"enum": ["a", "b"]}
    assert spec["either"] == {"x-kubernetes-int-or-string": True}


def test_operations_are_those_of_kubernetes() -> None:
    """What all operations of a path have in common is said at the path; every code of success is listed."""
    paths = OpenApi(builtin_kinds()).document("api/v1")
    assert paths is not None
    document = msgspec.json.decode(paths.body)["paths"]
    everywhere = document["/api/v1/configmaps"]
    assert "parameters" not in everywhere["get"]
    names = [one["name"] for one in everywhere["parameters"]]
    assert names == sorted(names)
    assert {"pretty", "watch", "shardSelector"} <= set(names)
    collection = document["/api/v1/namespaces/{namespace}/configmaps"]
    assert [one["name"] for one in collection["parameters"]] == ["namespace", "pretty"]
    assert collection["post"]["requestBody"]["required"]
    assert set(collection["post"]["responses"]) == {"200", "201", "202", "401"}
    assert "application/json;stream=watch" in collection["get"]["responses"]["200"]["content"]
    claims = document["/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"]["delete"]["responses"]["202"]
    reference = claims["content"]["application/json"]["schema"]["$ref"]
    assert reference.endswith("io.k8s.api.core.v1.PersistentVolumeClaim")
