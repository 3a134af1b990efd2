"""Where containers find the API server."""

from urllib.parse import urlsplit

from kohort.kube.informer import Informer
from kohort.objects.discovery import EndpointSlice


class ApiServerAddress:
    def __init__(self, slices: Informer[EndpointSlice], url: str) -> None:
        """`url` is where the agent itself reaches the API server; empty if it is in the same process."""
        self._slices = slices
        self._url = urlsplit(url)

    def current(self) -> tuple[str, str]:
        """Host and port: of the endpoints of the Service `kubernetes`, else where the agent reaches it, else empty."""
        for each in self._slices.list("default"):
            if each.service_name == "kubernetes" and each.endpoints and each.ports:
                endpoint = each.endpoints[0]
                if endpoint.addresses and endpoint.conditions.ready is not False:
                    return endpoint.addresses[0], str(each.ports[0].port)
        return (self._url.hostname, str(self._url.port or 443)) if self._url.hostname else ("", "")
