"""The data plane in a process: opened by the first object that needs it, fed by caches.

While there is no Ingress, Gateway or HTTPRoute it costs some empty caches: no port, no cache of Services and
endpoints, not even the HTTP library is imported.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kohort.cluster.gateway.views import (
    CONTROLLER,
    GATEWAY_CLASSES,
    GATEWAYS,
    REFERENCE_GRANTS,
    Gateway,
    GatewayClass,
    HTTPRoute,
    ReferenceGrant,
)
from kohort.kube import clock
from kohort.kube.controller import Controller, Requeue
from kohort.kube.errors import NotFound
from kohort.kube.informer import Informer
from kohort.kube.log import Log
from kohort.kube.manager import Manager
from kohort.kube.merge_patch import equal
from kohort.kube.object_identity import key_of
from kohort.kube.resources import (
    ENDPOINT_SLICES,
    HTTP_ROUTES,
    INGRESSES,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    Key,
    Resource,
)
from kohort.objects.core import Namespace, Secret, Service
from kohort.objects.discovery import EndpointSlice
from kohort.objects.json_types import JsonObject
from kohort.objects.networking import Ingress
from kohort.objects.pods import Pod

if TYPE_CHECKING:
    from kohort.cluster.gateway.backends import Backends, Dial
    from kohort.cluster.gateway.certificates import Pair
    from kohort.cluster.gateway.gateway_ports import GatewayPorts
    from kohort.cluster.gateway.httproutes import RouteTables
    from kohort.cluster.gateway.metrics import RequestMetrics
    from kohort.cluster.gateway.metrics_server import MetricsServer
    from kohort.cluster.gateway.proxy import Proxy, Settings
    from kohort.cluster.gateway.route_table import Route
    from kohort.cluster.gateway.status_writer import Routing

_log = Log(module="kohort.cluster.gateway")

_GATHER_SECONDS: Final = 0.002
"""Changes within this time make one new table."""
_TLS_SECRETS: Final = "type=kubernetes.io/tls"


class DataPlane:
    """Modules that are needed for serving are imported when the first object needs them."""

    def __init__(
        self, manager: Manager, *, host: str, port: int, dial: "Dial | None", settings: "Callable[[], Settings]"
    ) -> None:
        self._settings = settings
        self.manager = manager
        self.client = manager.client
        self.host = host
        self.proxy: Proxy | None = None
        self._wanted_port = port
        self._dial = dial
        self._opening = asyncio.Lock()
        self._gathering: asyncio.TimerHandle | None = None
        self._reported_problems: set[str] = set()
        self.request_metrics: RequestMetrics | None = None
        self._metrics_server: MetricsServer | None = None
        self._backends: Backends | None = None
        self.ingresses: Informer[Ingress] = manager.informer(INGRESSES, Ingress)
        self.routes: Informer[HTTPRoute] | None = None
        self.gateways: Informer[Gateway] | None = None
        self.secrets: Informer[Secret] | None = None
        self._wrong_secrets: dict[Key, str] = {}
        self._gateway_controller: Controller | None = None
        self._route_controller: Controller | None = None
        self._gateway_ports: GatewayPorts | None = None
        self._services: Informer[Service] | None = None
        self._namespaces: Informer[Namespace] | None = None
        self._grants: Informer[ReferenceGrant] | None = None
        self.ingresses.on_change(self._ingress_changed)
        manager.controller("gateway-ingresses", self.reconcile_ingress).watches(self.ingresses)
        manager.clean_up(self.close)

    def serve_gateway_api(self, grants: Resource = REFERENCE_GRANTS) -> None:
        """The definitions must be installed; `grants` in the version that is served."""
        self._grants = self.manager.informer(grants, ReferenceGrant)
        self._grants.on_change(self._reference_changed)
        self.routes = self.manager.informer(HTTP_ROUTES, HTTPRoute)
        self.gateways = self.manager.informer(GATEWAYS, Gateway)
        classes = self.manager.informer(GATEWAY_CLASSES, GatewayClass)
        self.routes.on_change(self._spec_changed)
        self.gateways.on_change(self._spec_changed)
        routes = self.manager.controller("gateway-routes", self.reconcile_route).watches(self.routes)
        routes.watches(self.gateways, lambda _: self._all_routes(), when=_spec_differs)
        gateways = self.manager.controller("gateway-gateways", self.reconcile_gateway).watches(self.gateways)
        gateways.watches(self.routes, lambda _: self._all_gateways(), when=_spec_differs)
        self._gateway_controller, self._route_controller = gateways, routes

        async def reconcile_class(key: Key) -> Requeue | None:
            from kohort.cluster.gateway import status_writer

            one = classes.get(key)
            if one is not None and one.spec.controller_name == CONTROLLER:
                await self._set_status(
                    GATEWAY_CLASSES, key, one.status, status_writer.class_status(one, clock.timestamp())
                )
            return None

        self.manager.controller("gateway-classes", reconcile_class).watches(classes)

    @property
    def address(self) -> str:
        """Where requests go, empty while nothing is served."""
        return f"http://{self.host}:{self.proxy.port}" if self.proxy is not None else ""

    async def close(self) -> None:
        if self._gathering is not None:
            self._gathering.cancel()
        if self.proxy is not None:
            await self.proxy.close()
            self.proxy = None
        if self._metrics_server is not None:
            await self._metrics_server.close()
            self._metrics_server = None

    # Status

    async def reconcile_ingress(self, key: Key) -> Requeue | None:
        ingress = self.ingresses.get(key)
        if ingress is None:
            return None
        from kohort.cluster.gateway import status_writer

        live = await self.client.find(INGRESSES, key.name, key.namespace)
        if live is None:
            return None
        known: JsonObject = live.get("status") or {}
        proxy = await self._opened(status_writer.ingress_port(known, self.host))
        tls_port = 0
        if ingress.spec.tls:
            tls_port = await self._secured(proxy, status_writer.ingress_port(known, self.host, secure=True))
        await self._set_status(INGRESSES, key, known, status_writer.ingress_status(self.host, proxy.port, tls_port))
        return None

    async def reconcile_gateway(self, key: Key) -> Requeue | None:
        assert self.gateways is not None and self.routes is not None
        gateway = self.gateways.get(key)
        if gateway is None:
            if self._gateway_ports is not None:
                self._gateway_ports.close(key)
            return None
        from kohort.cluster.gateway import status_writer
        from kohort.cluster.gateway.gateway_ports import wanted_ports

        proxy = await self._opened(status_writer.gateway_port(gateway.status, self.host))
        if any(listener.secure for listener in gateway.spec.listeners):
            await self._secured(proxy, status_writer.gateway_port(gateway.status, self.host, secure=True))
        await self._watch_references()
        ports = self._gateway_ports
        assert ports is not None
        before = ports.open_ports(key)
        await ports.open(key, wanted_ports(gateway), status_writer.gateway_address(gateway.status))
        if ports.open_ports(key) != before:
            self._rebuild()
        served = status_writer.Served(
            self.host, proxy.port, proxy.tls_port, self._wrong_secrets, ports.address(key), ports.open_ports(key)
        )
        desired = status_writer.gateway_status(
            gateway, self.routes.list(), served, clock.timestamp(), self._routing_facts()
        )
        await self._set_status(GATEWAYS, key, gateway.status, desired)
        return None

    async def reconcile_route(self, key: Key) -> Requeue | None:
        assert self.routes is not None
        route = self.routes.get(key)
        if route is None:
            return None
        from kohort.cluster.gateway import status_writer

        # The Gateway opens the port: a route without one is not served.
        await self._watch_references()
        desired = status_writer.route_status(route, self._routing_facts(), self._ports_of, clock.timestamp())
        await self._set_status(HTTP_ROUTES, key, route.status, desired)
        return None

    def _routing_facts(self) -> "Routing":
        from kohort.cluster.gateway.status_writer import Routing

        return Routing(self._gateways_by_key(), self._namespace_labels(), self._granted())

    def _granted(self) -> tuple[ReferenceGrant, ...]:
        return () if self._grants is None else tuple(self._grants.list())

    def _namespace_labels(self) -> dict[str, dict[str, str]]:
        found = () if self._namespaces is None else self._namespaces.list()
        return {one.metadata.name: one.metadata.labels for one in found}

    def _ports_of(self, service: Key) -> tuple[int, ...] | None:
        found = None if self._services is None else self._services.get(service)
        return None if found is None else tuple(port.port for port in found.spec.ports)

    async def _watch_references(self) -> None:
        """Services and namespaces are watched once there is a Gateway or a route."""
        if self._namespaces is None:
            self._services = self.manager.informer(SERVICES, Service)
            self._namespaces = self.manager.informer(NAMESPACES, Namespace)
            self._services.on_change(self._service_changed)
            self._namespaces.on_change(self._namespace_changed)
        assert self._services is not None
        await self._services.wait_synced()
        await self._namespaces.wait_synced()

    def _service_changed(self, old: Service | None, new: Service | None) -> None:
        if old is None or new is None or old.spec.ports != new.spec.ports:
            self._enqueue_all()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._rebuild_soon()
            self._enqueue_all()

    def _reference_changed(self, old: ReferenceGrant | None, new: ReferenceGrant | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._rebuild_soon()
            self._enqueue_all()

    def _enqueue_all(self) -> None:
        """Conditions of routes and Gateways may have changed."""
        if self._route_controller is not None and self._gateway_controller is not None:
            for key in self._all_routes():
                self._route_controller.enqueue(key)
            for key in self._all_gateways():
                self._gateway_controller.enqueue(key)

    async def _set_status(self, resource: Resource, key: Key, known: JsonObject, desired: JsonObject) -> None:
        if all(equal(known.get(field), value) for field, value in desired.items()):
            return
        try:
            await self.client.patch(resource, key.name, key.namespace, {"status": desired}, subresource="status")
        except NotFound:
            return

    def _all_routes(self) -> list[Key]:
        return [key_of(route) for route in self.routes.list()] if self.routes is not None else []

    def _all_gateways(self) -> list[Key]:
        return [key_of(gateway) for gateway in self.gateways.list()] if self.gateways is not None else []

    def _gateways_by_key(self) -> dict[Key, Gateway]:
        return {} if self.gateways is None else {key_of(one): one for one in self.gateways.list()}

    # Serving

    async def _opened(self, port: int = 0) -> "Proxy":
        """`port` is where it was before, if that is known."""
        async with self._opening:
            if self.proxy is None:
                self.proxy = await self._open(port)
                self._rebuild()
            return self.proxy

    async def _secured(self, proxy: "Proxy", port: int) -> int:
        """The port with TLS. Secrets are watched once an object names one."""
        async with self._opening:
            if not proxy.tls_port:
                self.secrets = self.manager.informer(SECRETS, Secret, field_selector=_TLS_SECRETS)
                await self.secrets.wait_synced()
                self.secrets.on_change(self._secret_changed)
                try:
                    await proxy.open_tls(self.host, port)
                except OSError:
                    if not port:
                        raise
                    await proxy.open_tls(self.host, 0)
                _log.info("gateway serves with TLS", address=f"https://{self.host}:{proxy.tls_port}")
                self._rebuild()
            return proxy.tls_port

    async def _listen(self, proxy: "Proxy", before: int) -> None:
        """Listen on the configured port; without one on the port that was used before, if it is free."""
        if self._wanted_port == 0 and before:
            try:
                return await proxy.open(self.host, before)
            except OSError:
                await proxy.close()
        await proxy.open(self.host, self._wanted_port)

    async def _open(self, port: int) -> "Proxy":
        from kohort.cluster.gateway.backends import Backends
        from kohort.cluster.gateway.gateway_ports import GatewayPorts
        from kohort.cluster.gateway.metrics import RequestMetrics
        from kohort.cluster.gateway.metrics_server import MetricsServer
        from kohort.cluster.gateway.proxy import Proxy

        services = self.manager.informer(SERVICES, Service)
        slices = self.manager.informer(ENDPOINT_SLICES, EndpointSlice)
        await services.wait_synced()
        await slices.wait_synced()

        def pods() -> Informer[Pod]:
            return self.manager.informer(PODS, Pod)

        if self.request_metrics is None:
            self.request_metrics = RequestMetrics(self.manager.metrics.registry)
        if self._backends is None:
            self._backends = Backends(services, slices, pods, self._endpoints_changed)
        proxy = Proxy(self._backends, dial=self._dial, metrics=self.request_metrics, settings=self._settings())
        metrics_server = MetricsServer(self.manager.metrics.render)
        try:
            await self._listen(proxy, port)
            await metrics_server.open(self.host)
            await metrics_server.publish(self.client)
        except BaseException:
            await metrics_server.close()
            await proxy.close()
            raise
        self._gateway_ports, self._metrics_server = GatewayPorts(proxy), metrics_server
        _log.info("gateway serves Ingresses and HTTPRoutes", address=f"http://{self.host}:{proxy.port}")
        return proxy

    def _endpoints_changed(self, service: Key) -> None:
        if self.request_metrics is not None and self._backends is not None:
            self.request_metrics.retain(service, self._backends.pods_of(service))

    def _ingress_changed(self, old: Ingress | None, new: Ingress | None) -> None:
        if old is None or new is None or old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
            self._rebuild_soon()

    def _spec_changed(self, old: HTTPRoute | Gateway | None, new: HTTPRoute | Gateway | None) -> None:
        if _spec_differs(old, new):
            self._rebuild_soon()

    def _rebuild_soon(self) -> None:
        if self.proxy is not None and self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._rebuild)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        if old is None or new is None or old.data != new.data:
            self._rebuild_soon()

    def _load_certificates(self, proxy: "Proxy") -> list[str]:
        """Use the certificates that objects name; returns what is wrong with the others."""
        from kohort.cluster.gateway.certificates import wanted, wanted_by

        if self.secrets is None:
            return []
        gateways, grants = self._gateways_by_key(), self._granted()
        wrong: dict[Key, str] = {}
        proxy.certificates.use(self._pairs(wanted(self.ingresses.list(), gateways.values(), grants), wrong))
        for key, number, port in self._gateway_ports or ():
            if port.certificates is not None and key in gateways:
                port.certificates.use(self._pairs(wanted_by(gateways[key], grants, number), wrong))
        if wrong != self._wrong_secrets:
            self._wrong_secrets = wrong
            self._enqueue_all()
        return [f"TLS: {problem}" for problem in wrong.values()]

    def _pairs(self, secrets: dict[str, Key], wrong: dict[Key, str]) -> "dict[str, Pair]":
        """The certificates by host; what is wrong with others is added to `wrong`."""
        from kohort.cluster.gateway.certificates import BadCertificate, pair_of

        assert self.secrets is not None
        pairs = {}
        for host, key in secrets.items():
            try:
                pairs[host] = pair_of(self.secrets.get(key), key)
            except BadCertificate as problem:
                wrong[key] = str(problem)
        return pairs

    def _rebuild(self) -> None:
        from kohort.cluster.gateway import httproutes, ingresses
        from kohort.cluster.gateway.route_table import RouteTable

        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self.proxy is None:
            return
        found, problems = ingresses.routes_of(self.ingresses.list())
        if self.routes is not None:
            gateways = self._gateways_by_key()
            tables = httproutes.routes_of(self.routes.list(), gateways, self._namespace_labels(), self._granted())
            found, problems = found + tables.shared, problems + tables.problems
            self._use_listener_tables(gateways, tables)
        problems += self._load_certificates(self.proxy)
        for problem in problems:
            if problem not in self._reported_problems:
                _log.warning("gateway does not serve all that was asked for", problem=problem)
        self._reported_problems = set(problems)
        self.proxy.table = RouteTable(found).continuing(self.proxy.table)
        self._drop_unknown_services(found)

    def _use_listener_tables(self, gateways: dict[Key, Gateway], tables: "RouteTables") -> None:
        from kohort.cluster.gateway.route_table import ListenerTables, RouteTable

        for key, number, port in self._gateway_ports or ():
            listeners = gateways[key].spec.listeners if key in gateways else ()
            here = {
                one.hostname: RouteTable(tables.by_listener.get((key, one.name), ()))
                for one in listeners
                if one.port == number
            }
            port.routes = ListenerTables(here).continuing(port.routes)

    def _drop_unknown_services(self, routes: "list[Route]") -> None:
        """Series of names that routes gave, and that are neither named any more nor a Service."""
        if self.request_metrics is None or self._backends is None:
            return
        named = {Key(backend.namespace, backend.service) for route in routes for backend in route.backends()}
        for service in self.request_metrics.services():
            if service.name and service not in named and self._backends.pods_of(service) is None:
                self.request_metrics.retain(service, None)


def _spec_differs(old: HTTPRoute | Gateway | None, new: HTTPRoute | Gateway | None) -> bool:
    """Not for a status: those are written here, and nothing follows from them."""
    return old is None or new is None or old.spec != new.spec
