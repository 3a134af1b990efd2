"""What admission sees of exec, attach, port-forward and proxy."""

import pytest
from tests.cluster.apiserver.caller import AllowAll, Api

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.catalog.builtin_kinds import builtin_kinds
from kohort.cluster.apiserver.catalog.catalog import Catalog
from kohort.cluster.apiserver.server import ApiServer, OutgoingClients
from kohort.cluster.apiserver.storage.store import open_store
from kohort.kube import errors
from kohort.kube.http import Response
from kohort.objects.json_types import JsonObject

POD = "/api/v1/namespaces/default/pods/p"


class Refusing:
    """Admission that remembers what was to be connected, and refuses it."""

    def __init__(self) -> None:
        self.seen: list[Attributes] = []

    async def mutate(self, attributes: Attributes) -> None:
        return

    async def validate(self, attributes: Attributes) -> None:
        if attributes.operation == "CONNECT":
            self.seen.append(attributes)
            raise errors.forbidden("pods", attributes.name, "not today")


@pytest.mark.parametrize(
    ("path", "query", "options"),
    [
        (
            f"{POD}/attach",
            {"stdin": "true", "stdout": "1", "stderr": "false", "tty": "0", "container": "c"},
            {"kind": "PodAttachOptions", "stdin": True, "stdout": True, "container": "c"},
        ),
        (
            f"{POD}/exec",
            {"stdout": "true", "tty": "true", "command": "ls"},
            {"kind": "PodExecOptions", "stdout": True, "tty": True, "command": ["ls"]},
        ),
        (f"{POD}/portforward", {"ports": "80"}, {"kind": "PodPortForwardOptions", "ports": [80]}),
        (f"{POD}/proxy/a/b/", {}, {"kind": "PodProxyOptions", "path": "/a/b/"}),
        ("/api/v1/nodes/n/proxy/metrics", {}, {"kind": "NodeProxyOptions", "path": "/metrics"}),
    ],
)
async def test_options_have_the_types_of_their_kind(path: str, query: dict[str, str], options: JsonObject) -> None:
    admission = Refusing()
    authorizer = AllowAll()
    server = ApiServer(
        open_store(None),
        Catalog(builtin_kinds()),
        authorizer,
        admission=admission,
        outgoing=OutgoingClients(forwarder=Nothing()),
    )
    api = Api(server, authorizer)
    await api.post("/api/v1/nodes", {"metadata": {"name": "n"}})
    status = {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
    await api.patch("/api/v1/nodes/n/status", {"status": status})
    await api.pod("p", nodeName="n")
    await api.patch(f"{POD}/status", {"status": {"podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.2"}]}})
    answer = await api.get(path, None, **query)
    assert (answer.code, "not today" in answer.raw.decode()) == (403, True), answer.raw
    (seen,) = admission.seen
    assert seen.object == {"apiVersion": "v1", **options}
    assert (seen.resource.kind, seen.subresource) == (options["kind"], path.split("/")[7 if "pods" in path else 5])


class Nothing:
    """A way to the outside that must not be used."""

    async def forward(self, *arguments: object) -> Response:
        raise AssertionError("a refused connection was made")
