"""Answers in corners that only step-by-step comparison with a real server shows; all are those of Kubernetes 1.36."""

from tests.cluster.apiserver.caller import AllowAll, Answer, Api

from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import JsonObject

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


async def test_owners_in_a_version_that_is_not_served_are_forgotten(api: Api) -> None:
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


async def test_history_begins_when_the_server_is_ready() -> None:
    """What was written before can neither be watched nor read as it was; an informer starts with a list anyway."""
    server, _ = await assemble(open_store(None))
    api = Api(server, AllowAll())
    old = await api.get(MAPS, resourceVersion="1", resourceVersionMatch="Exact")
    assert (old.code, old.message) == (410, "The resourceVersion for the provided list is too old.")
    gone = await (await api.watch(MAPS, resourceVersion="1")).next()
    assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)
    now = (await api.get(MAPS)).meta["resourceVersion"]
    await api.config_map("a")
    assert (await (await api.watch(MAPS, resourceVersion=now)).take(1)) == [("ADDED", "a")]
    await server.close()


async def test_a_list_that_goes_on_in_any_state_has_no_limit(api: Api) -> None:
    for name in ("a", "b", "c", "d"):
        await api.config_map(name)
    token = (await api.get(MAPS, limit="1")).meta["continue"]
    assert (await api.get(MAPS, limit="1", continue_=token)).names == ["b"]
    assert (await api.get(MAPS, limit="1", continue_=token, resourceVersion="0")).names == ["b", "c", "d"]


async def test_the_query_of_a_deletion_may_name_its_object(api: Api) -> None:
    await api.config_map("a")
    assert (await api.delete(f"{MAPS}/a", uid="other")).code == 409
    assert (await api.delete(MAPS, {"preconditions": {"uid": "other"}})).code == 409
    assert (await api.get(MAPS)).names == ["a"]


async def test_a_namespace_remembers_how_it_was_deleted(api: Api) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "x"}})
    going = await api.delete("/api/v1/namespaces/x", {"propagationPolicy": "Foreground"})
    assert going.meta["finalizers"] == ["foregroundDeletion"]


async def test_classes_of_the_system_stay(api: Api) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("system-node-critical", 2000001000), ("mine", 5)):
        assert (await api.post(classes, {"metadata": {"name": name}, "value": value})).code == 201
    refused = await api.delete(f"{classes}/system-node-critical")
    assert (refused.code, refused.message) == (
        403,
        'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: '
        "this is a system priority class and cannot be deleted",
    )
    assert (await api.delete(f"{classes}/mine")).code == 200


async def test_what_the_server_writes_into_a_budget_is_its_own(api: Api) -> None:
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    pod = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    await api.post("/api/v1/namespaces/default/pods", pod)
    await api.patch("/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Running"}})
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    await api.post(budgets, {"metadata": {"name": "b"}, "spec": spec})
    status = {"disruptionsAllowed": 1, "observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 2}
    await api.patch(f"{budgets}/b/status", {"status": {**status, "expectedPods": 2, "desiredHealthy": 3}})
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await api.post("/api/v1/namespaces/default/pods/p/eviction", eviction)).code == 201
    (own,) = [
        one for one in (await api.get(f"{budgets}/b")).meta["managedFields"] if one["manager"] == "kube-apiserver"
    ]
    assert (own["operation"], own["subresource"]) == ("Update", "status")
    assert set(own["fieldsV1"]["f:status"]) == {"f:conditions", "f:disruptedPods", "f:disruptionsAllowed"}


async def test_a_service_without_endpoints_is_not_found(api: Api) -> None:
    services = "/api/v1/namespaces/default/services"
    await api.post(services, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    said = await api.get(f"{services}/s/proxy")
    assert (said.code, said.message) == (404, 'services "s" not found')


async def test_repetitions_of_what_is_unknown_are_not_seen(api: Api) -> None:
    labels = b'"labels":{"a":"1","a":"2"}'
    body = b'{"metadata":{"name":"a",%b,"foo":1},"data":{"x":"1","x":"2"},"bogus":{"q":1},"bogus":2}' % labels
    said = Answer(await api.send("POST", MAPS, body, fieldValidation="Strict"))
    assert said.message.partition("strict decoding error: ")[2] == (
        'duplicate field "metadata.labels.a", unknown field "metadata.foo", duplicate field "data.x", '
        'unknown field "bogus"'
    )


async def test_an_outdated_document_leads_to_the_present_one(api: Api) -> None:
    moved = await api.get("/openapi/v3/apis/apps/v1", hash="OLD")
    present = (await api.get("/openapi/v3")).json["paths"]["apis/apps/v1"]["serverRelativeURL"]
    assert (moved.code, moved.headers["location"]) == (301, present)
    assert (await api.get("/openapi/v3/apis/apps/v1", {"accept": "application/yaml"})).code == 406


async def test_a_client_that_accepts_aggregated_discovery_gets_it(api: Api) -> None:
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    said = await api.get("/apis", {"accept": f"application/json,{aggregated}"})
    assert said.json["kind"] == "APIGroupDiscoveryList"
    same = await api.get("/apis", {"accept": aggregated, "if-none-match": said.headers["etag"]})
    assert (same.code, same.headers.get("content-type")) == (304, None)


async def test_owners_in_another_group_are_forgotten(api: Api) -> None:
    event = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "eventTime": "2024-01-01T00:00:00.123456Z",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "action": "A",
        "reason": "R",
        "type": "Normal",
    }
    assert (await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)).code == 201
    changed = await api.patch("/api/v1/namespaces/default/events/e", {"message": "new"})
    (owner,) = changed.meta["managedFields"]
    assert (owner["apiVersion"], owner["fieldsV1"]) == ("v1", {"f:message": {}})


async def test_a_refused_patch_is_shown_with_what_it_would_have_made(api: Api) -> None:
    """Keys are sorted where the patch reached; the rest is in the order of declaration."""
    body = {"data": {"k": "v"}, "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}, "name": "a"}}
    made = await api.post(MAPS, body)
    refused = await api.patch(f"{MAPS}/a", {"data": {"k": 5}, "binaryData": None})
    shown = refused.json["details"]["causes"][0]["message"].partition('"')[2].replace('\\"', '"')
    uid, revision, created = (made.meta[key] for key in ("uid", "resourceVersion", "creationTimestamp"))
    assert shown.startswith(
        '{"apiVersion":"v1","data":{"k":5},"kind":"ConfigMap","metadata":{"name":"a","namespace":"default",'
        f'"uid":"{uid}","resourceVersion":"{revision}","creationTimestamp":"{created}",'
        '"labels":{"l":"1"},"annotations":{"a":"1"},"managedFields":[{"manager":"tests","operation":"Update",'
    )


async def test_a_patch_that_cannot_be_read_of_an_object_that_does_not_exist(api: Api) -> None:
    strategic = "application/strategic-merge-patch+json"
    for media, body in (
        ("application/json-patch+json", b"{}"),
        ("application/merge-patch+json", b"["),
        (strategic, b"["),
    ):
        refused = await api.patch(f"{MAPS}/none", body, media)
        assert (refused.code, refused.message) == (404, 'configmaps "none" not found'), media
    await api.config_map("a")
    assert (await api.patch(f"{MAPS}/a", b"[", strategic)).code == 400


async def test_labels_in_messages_are_sorted(api: Api) -> None:
    body = deployment()
    body["spec"]["template"]["metadata"]["labels"] = {"z": "1", "b": "2"}
    refused = await api.post(DEPLOYMENTS, body)
    assert refused.message.endswith('Invalid value: {"b":"2","z":"1"}: `selector` does not match template `labels`')


async def test_rules_of_a_failure_policy_without_a_condition(api: Api) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}
    job = {"podFailurePolicy": {"rules": [{"action": "Count"}]}, "template": {"spec": pod}}
    refused = await api.post("/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "j"}, "spec": job})
    said = "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"
    assert [cause["message"] for cause in refused.json["details"]["causes"]] == [said]


async def test_addresses_of_webhooks(api: Api) -> None:
    hook = {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": []}
    for url, reason, said in (
        ("::1", "FieldValueRequired", 'url must be a valid URL: parse "::1": missing protocol scheme'),
        ("https://u:p@x/y", "FieldValueInvalid", 'Invalid value: "u:p": user information is not permitted in the URL'),
    ):
        body = {"metadata": {"name": "w"}, "webhooks": [{**hook, "clientConfig": {"url": url}}]}
        path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        (cause,) = (await api.post(path, body)).json["details"]["causes"]
        assert (cause["reason"], said in cause["message"]) == (reason, True), url


async def test_how_often_wrong_metadata_is_reported(api: Api) -> None:
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    assert (await api.post(claims, {"metadata": {"name": "c"}, "spec": {"devices": devices}})).code == 201
    flows = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    flow = {"metadata": {"name": "f"}, "spec": {"priorityLevelConfiguration": {"name": "exempt"}}}
    assert (await api.post(flows, flow)).code == 201
    for path, metadata, fields in (
        (f"{claims}/c", {"finalizers": ["cpu"]}, ["metadata.finalizers[0]"] * 2),
        (f"{flows}/f", {"deletionGracePeriodSeconds": -1}, ["metadata.deletionGracePeriodSeconds"]),
        (f"{flows}/f", {"generateName": "Cluster"}, ["metadata.generateName"]),
    ):
        refused = await api.patch(path, {"metadata": metadata})
        assert [cause["field"] for cause in refused.json["details"]["causes"]] == fields, path
