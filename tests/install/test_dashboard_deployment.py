"""The dashboard as it is installed: its rights are enough and no more, and the chart is the plain manifests."""

import pytest
import yaml
from tests.dashboard.scene import model_set, scene
from tests.dashboard.test_token_access import Place, logged_in, posted, reader
from tests.install.test_chart import CHART, Rendering, _key

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.cli.main import main
from kohort.dashboard.running import running
from kohort.dashboard.server import DashboardSettings
from kohort.install import dashboard_deployment
from kohort.install.install_kinds import resource_of
from kohort.install.manifests import manifests
from kohort.install.options import InstallOptions
from kohort.kube.client import Client
from kohort.kube.credentials import Credentials, Static
from kohort.kube.errors import Forbidden
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, SERVICE_ACCOUNTS
from kohort.kube.transport import Connection, HttpsTransport

ALL_OF_SETS = [
    {"apiGroups": ["leaderworkerset.x-k8s.io", "", "apps"], "resources": ["*"], "verbs": ["get", "list", "patch"]}
]


@pytest.mark.parametrize("namespaces", [(), ("east",)])
async def test_its_rights_are_enough_and_do_not_write(namespaces: tuple[str, ...]) -> None:
    async with scene(nodes=4) as found, found.cluster.listening() as address:
        options = InstallOptions(namespace="kohort", dashboard=True, namespaces=namespaces)
        await found.namespace("east", "kohort")
        await found.create(model_set("llm", "east"))
        await found.ready("llm", "east")
        for one in dashboard_deployment.access(options):
            await found.client.create(resource_of(one), one, one["metadata"].get("namespace", ""))
        name = dashboard_deployment.NAME
        answer = await found.client.create(SERVICE_ACCOUNTS, {"spec": {}}, "kohort", "token", name)
        connection = Connection(address.server, ca=address.authority.encode())
        client = Client(HttpsTransport(connection, Credentials(Static(bearer=answer["status"]["token"]))))
        with pytest.raises(Forbidden):
            await client.patch(LEADER_WORKER_SETS, "llm", "east", {"spec": {"replicas": 5}})
        settings = DashboardSettings(allow_actions=True)
        async with running(
            client, ("127.0.0.1", 0), settings, CliCommands(), namespaces=namespaces, tokens_of=connection
        ) as made:
            place = Place(found, made, await reader(found, "east", ALL_OF_SETS))
            async with logged_in(place, place.token) as user:
                assert [one["name"] for one in (await user.json("/dashboard/"))["rows"]] == ["llm"]
                for tab in ("", "/history", "/events", "/logs", "/failures", "/resize"):
                    await user.json(f"/dashboard/sets/east/llm{tab}")
                await posted(user, "/dashboard/sets/east/llm/actions/restart", {})
            await found.cluster.until(
                lambda: any(one["reason"] == "DashboardRestart" for one in found.cluster.objects(EVENTS, "east"))
            )
        await client.close()


@pytest.mark.parametrize("actions", [True, False])
@pytest.mark.parametrize("hosts", [(), ("dashboard.example.com",)])
@pytest.mark.parametrize("secret", ["", "dashboard-tls"])
def test_the_chart_is_the_plain_manifests(actions: bool, hosts: tuple[str, ...], secret: str) -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    values["dashboard"] = {"enabled": True, "allowActions": actions, "hosts": ",".join(hosts), "tlsSecret": secret}
    rendered = {_key(one): one for one in Rendering(values, "somewhere").objects()}
    options = InstallOptions(
        namespace="somewhere",
        dashboard=True,
        dashboard_actions=actions,
        dashboard_hosts=hosts,
        dashboard_tls_secret=secret,
    )
    plain = dashboard_deployment.dashboard(options)
    assert len(plain) == (8 if secret else 7)
    assert {_key(one): one for one in plain}.items() <= rendered.items()


def test_the_arguments_are_those_of_the_command() -> None:
    """What the container is started with is understood by the command."""
    import click

    options = InstallOptions(
        dashboard=True, dashboard_actions=True, dashboard_hosts=("a.example.com",), namespaces=("east",)
    )
    (deployment,) = [one for one in dashboard_deployment.dashboard(options) if one["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["kohort", "dashboard"]
    command = main.get_command(click.Context(main), "dashboard")
    assert command is not None
    context = command.make_context("dashboard", [*container["args"]])
    assert (context.params["auth"], context.params["allow_actions"]) == ("token", True)
    assert (context.params["namespaces"], context.params["allowed_hosts"]) == ("east", ("a.example.com",))
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]


def test_with_a_certificate_it_serves_https_to_probes_and_users() -> None:
    import click

    plain = dashboard_deployment.dashboard(InstallOptions(dashboard=True, dashboard_tls_secret="dashboard-tls"))
    found = {one["kind"]: one for one in plain}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    command = main.get_command(click.Context(main), "dashboard")
    assert command is not None
    params = command.make_context("dashboard", [*container["args"]]).params
    assert (params["auth"], params["client_ca"]) == ("token", "cluster")
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == "tls"]
    assert {params["tls_cert"], params["tls_key"]} == {f"{mount['mountPath']}/tls.{end}" for end in ("crt", "key")}
    assert {"name": "tls", "secret": {"secretName": "dashboard-tls", "defaultMode": 0o440}} in pod["volumes"]
    assert pod["securityContext"]["fsGroup"] == container["securityContext"]["runAsGroup"]
    assert (
        container["readinessProbe"]["httpGet"]["scheme"] == container["livenessProbe"]["httpGet"]["scheme"] == "HTTPS"
    )
    assert found["Service"]["spec"]["ports"][0]["port"] == 443
    assert found["RoleBinding"]["metadata"]["namespace"] == "kube-system"
    rules = [rule for one in plain for rule in one.get("rules", ())]
    assert not any("impersonate" in one["verbs"] for one in rules)


def test_it_is_not_installed_unless_asked_for() -> None:
    assert not [one for one in manifests(InstallOptions()) if "dashboard" in one["metadata"]["name"]]
    assert {
        one["kind"] for one in manifests(InstallOptions(dashboard=True)) if "dashboard" in one["metadata"]["name"]
    } == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service", "Deployment"),
    }
