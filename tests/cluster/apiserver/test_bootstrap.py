"""What every cluster starts with (specification 5.5)."""

from kohort.cluster.apiserver.bootstrap import own_endpoints
from kohort.cluster.apiserver.server import ApiServer
from kohort.cluster.apiserver.server_setup import announce, assemble
from kohort.cluster.apiserver.storage.model import Store
from kohort.cluster.apiserver.storage.store import open_store
from kohort.objects.json_types import JsonObject

FLOW = "flowcontrol.apiserver.k8s.io"


def stored(server: ApiServer, bucket: str, name: str, namespace: str = "") -> JsonObject:
    found = server.store.get(bucket, namespace, name)
    assert found is not None, (bucket, name)
    return found.decode()


async def started(store: Store | None = None) -> ApiServer:
    server, _ = await assemble(store or open_store(None), controllers=True)
    return server


async def test_what_is_there() -> None:
    server = await started()
    for name in ("default", "kube-system", "kube-public", "kube-node-lease"):
        assert stored(server, "namespaces", name)["status"] == {"phase": "Active"}
    service = stored(server, "services", "kubernetes", "default")["spec"]
    assert (service["clusterIP"], service["ports"][0]["port"]) == ("10.96.0.1", 443)
    values = {"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
    for name, value in values.items():
        assert stored(server, "priorityclasses.scheduling.k8s.io", name)["value"] == value
    storage = stored(server, "storageclasses.storage.k8s.io", "local-path")
    assert storage["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert (storage["volumeBindingMode"], storage["reclaimPolicy"]) == ("WaitForFirstConsumer", "Delete")
    assert stored(server, "configmaps", "extension-apiserver-authentication", "kube-system")


async def test_flow_control_is_described() -> None:
    server = await started()
    levels = {one.name: one.decode()["spec"] for one in server.store.list(f"prioritylevelconfigurations.{FLOW}")}
    schemas = {one.name: one.decode()["spec"] for one in server.store.list(f"flowschemas.{FLOW}")}
    assert len(levels) == 8
    assert (levels["exempt"]["type"], levels["workload-low"]["limited"]["nominalConcurrencyShares"]) == ("Exempt", 100)
    assert levels["system"]["limited"]["limitResponse"]["queuing"] == {
        "queues": 64,
        "handSize": 6,
        "queueLengthLimit": 50,
    }
    assert {schema["priorityLevelConfiguration"]["name"] for schema in schemas.values()} == set(levels)
    assert sorted(schemas, key=lambda name: (schemas[name]["matchingPrecedence"], name)) == [
        "exempt",
        "probes",
        "system-leader-election",
        "system-node-high",
        "system-nodes",
        "kube-controller-manager",
        "kube-scheduler",
        "kube-system-service-accounts",
        "service-accounts",
        "global-default",
        "catch-all",
    ]


async def test_every_group_version_that_is_served_has_an_api_service() -> None:
    server = await started()
    groups = {(group, version) for group, versions in server.catalog.groups() for version in versions}
    found = [one.decode() for one in server.store.list("apiservices.apiregistration.k8s.io")]
    named = {(one["spec"].get("group") or "", one["spec"]["version"]) for one in found}
    assert named == groups - {("apiregistration.k8s.io", "v1")} | {("metrics.k8s.io", "v1beta1")}
    assert {one["status"]["conditions"][0]["reason"] for one in found} == {"Local"}
    core = stored(server, "apiservices.apiregistration.k8s.io", "v1.")
    assert (core["spec"]["groupPriorityMinimum"], core["spec"]["versionPriority"]) == (18000, 1)


async def test_without_a_provisioner_there_is_no_default_class() -> None:
    server, _ = await assemble(open_store(None))
    assert server.store.get("storageclasses.storage.k8s.io", "", "local-path") is None


async def test_changes_by_users_stay() -> None:
    store = open_store(None)
    await started(store)
    found = store.get("storageclasses.storage.k8s.io", "", "local-path")
    assert found is not None
    await store.write(found.bucket, "", found.name, None, expected=found.revision)
    revision = store.revision
    await started(store)
    assert store.get("storageclasses.storage.k8s.io", "", "local-path") is not None, "what is missing is made again"
    assert store.revision == revision + 1, "and nothing else is touched"


async def test_the_service_leads_to_where_the_server_listens() -> None:
    server = await started()
    for port in (6443, 7443):
        await announce(server, "192.0.2.7", port)
        subsets = stored(server, "endpoints", "kubernetes", "default")["subsets"]
        assert subsets[0]["addresses"] == [{"ip": "192.0.2.7"}]
        assert subsets[0]["ports"][0]["port"] == port
        entry = stored(server, "endpointslices.discovery.k8s.io", "kubernetes", "default")
        assert entry["endpoints"][0]["addresses"] == ["192.0.2.7"]
        assert entry["ports"][0]["port"] == port


async def test_a_server_on_loopback_has_endpoints_that_are_not_ready() -> None:
    server = await started()
    await announce(server, "192.0.2.7", 6443, ready=False)
    [subset] = stored(server, "endpoints", "kubernetes", "default")["subsets"]
    assert subset["notReadyAddresses"] == [{"ip": "192.0.2.7"}]
    entry = stored(server, "endpointslices.discovery.k8s.io", "kubernetes", "default")
    assert entry["endpoints"] == [{"addresses": ["192.0.2.7"], "conditions": {"ready": False}}]


def test_a_loopback_address_is_no_endpoint() -> None:
    assert own_endpoints("127.0.0.1", 6443) == []
    assert own_endpoints("::1", 6443) == []
    assert own_endpoints("[::1]", 6443) == []


def test_a_name_is_no_endpoint() -> None:
    assert own_endpoints("cluster.example.com", 6443) == []


async def test_the_range_of_service_addresses_is_ready() -> None:
    server = await started()
    found = stored(server, "servicecidrs.networking.k8s.io", "kubernetes")
    assert found["spec"] == {"cidrs": ["10.96.0.0/16"]}
    [condition] = found["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "True")
    assert condition["message"] == "Kubernetes default Service CIDR is ready"
