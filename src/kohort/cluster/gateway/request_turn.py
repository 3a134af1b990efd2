"""What happens to a request that was planned: a backend whose turn it is, a redirect, or a refusal."""

from kohort.cluster.gateway.backend_client import BackendConnection
from kohort.cluster.gateway.backends import Address
from kohort.cluster.gateway.client_request import RefusedRequest
from kohort.cluster.gateway.metrics import CLIENT_GONE, Observation
from kohort.cluster.gateway.path_changes import Redirect
from kohort.cluster.gateway.request_plan import RequestPlan
from kohort.cluster.gateway.request_target import Target
from kohort.cluster.gateway.route_table import Backend


class BackendTurn:
    __slots__ = ("addresses", "backend", "observation", "plan", "sent")

    def __init__(self, plan: RequestPlan, backend: Backend, addresses: list[Address], observation: Observation) -> None:
        self.plan = plan
        self.backend = backend
        self.addresses = addresses
        """Those to try, in this order."""
        self.observation = observation
        self.sent: BackendConnection | None = None
        """The connection to the first address, if the request was sent there already."""

    def abandon(self) -> None:
        """The client is gone, and nothing else ends what was begun."""
        if self.sent is not None:
            self.sent.close()
        self.observation.end(CLIENT_GONE)


class RedirectTurn:
    __slots__ = ("observation", "redirect", "target")

    def __init__(self, redirect: Redirect, target: Target, observation: Observation) -> None:
        self.redirect = redirect
        self.target = target
        self.observation = observation

    def abandon(self) -> None:
        self.observation.end(CLIENT_GONE)


class RefusedTurn:
    __slots__ = ("observation", "refused")

    def __init__(self, refused: RefusedRequest, observation: Observation) -> None:
        self.refused = refused
        self.observation = observation

    def abandon(self) -> None:
        self.observation.end(CLIENT_GONE)


RequestTurn = BackendTurn | RedirectTurn | RefusedTurn
