"""Ingresses."""

from kohort.objects.meta import ObjectMeta, ObjectReference
from kohort.objects.view import View


class ServiceBackendPort(View, frozen=True):
    name: str = ""
    number: int = 0


class IngressServiceBackend(View, frozen=True):
    name: str = ""
    port: ServiceBackendPort = ServiceBackendPort()


class IngressBackend(View, frozen=True):
    service: IngressServiceBackend | None = None
    resource: ObjectReference | None = None


class IngressPath(View, frozen=True):
    backend: IngressBackend = IngressBackend()
    path: str = ""
    path_type: str = ""


class IngressHttp(View, frozen=True):
    paths: tuple[IngressPath, ...] | None = None


class IngressRule(View, frozen=True):
    host: str = ""
    http: IngressHttp | None = None


class IngressTls(View, frozen=True):
    hosts: tuple[str, ...] = ()
    secret_name: str = ""


class IngressSpec(View, frozen=True):
    default_backend: IngressBackend | None = None
    rules: tuple[IngressRule, ...] = ()
    tls: tuple[IngressTls, ...] = ()


class Ingress(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: IngressSpec = IngressSpec()
