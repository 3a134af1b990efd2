"""ServiceAccount: who a pod is towards the API, and the token that proves it.

A pod without an account runs as `default`, which a controller makes in every new namespace; a pod that comes faster
than the controller waits for it, for about a second.
"""

import asyncio
from typing import Final

from kohort.cluster.apiserver.admission.model import Attributes
from kohort.cluster.apiserver.admission.plugins.step import AdmissionStep, is_core, refusal, written
from kohort.cluster.apiserver.kinds.generated_names import generated_name
from kohort.objects import well_known_names
from kohort.objects.json_types import JsonObject

DEFAULT: Final = "default"
VOLUME_PREFIX: Final = "kube-api-access-"
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS: Final = 3607
MIRROR: Final = well_known_names.MIRROR_POD
ENFORCE_SECRETS: Final = well_known_names.MOUNTABLE_SECRETS
ATTEMPTS: Final = 10
PAUSE: Final = 0.1


class ServiceAccount(AdmissionStep):
    name = "ServiceAccount"
    about = ("pods",)

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == "CREATE" and is_core(attributes, "pods")

    async def mutate(self, attributes: Attributes) -> None:
        pod = written(attributes)
        spec = pod["spec"]
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._check_mirror(attributes, spec)
            return
        if not spec.get("serviceAccountName"):
            spec["serviceAccountName"] = DEFAULT
        spec["serviceAccount"] = spec["serviceAccountName"]
        account = await self._account(attributes, spec["serviceAccountName"])
        if _wants_token(spec, account):
            mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    async def validate(self, attributes: Attributes) -> None:
        pod = written(attributes)
        spec = pod["spec"]
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self._check_mirror(attributes, spec)
            return
        name = spec.get("serviceAccountName")
        if not name:
            detail = f"no service account specified for pod {attributes.namespace}/{pod['metadata'].get('name') or ''}"
            raise refusal(attributes, detail)
        account = await self._account(attributes, name)
        enforced = (account["metadata"].get("annotations") or {}).get(ENFORCE_SECRETS)
        if enforced in ("true", "True", "TRUE", "t", "T", "1"):
            problem = foreign_secret(spec, account)
            if problem:
                raise refusal(attributes, problem)

    async def _account(self, attributes: Attributes, name: str) -> JsonObject:
        for attempt in range(ATTEMPTS if name == DEFAULT else 1):
            if attempt:
                await asyncio.sleep(PAUSE)
            account = attributes.reader.get("serviceaccounts", attributes.namespace, name)
            if account is not None:
                return account
        where = f"{attributes.namespace}/{name}"
        raise refusal(attributes, f'error looking up service account {where}: serviceaccount "{name}" not found')

    def _check_mirror(self, attributes: Attributes, spec: JsonObject) -> None:
        """A copy of a pod that a node runs by itself may not use a service account."""
        if spec.get("serviceAccountName"):
            raise refusal(attributes, "a mirror pod may not reference service accounts")
        if any(_secret_names(spec)):
            raise refusal(attributes, "a mirror pod may not reference secrets")
        for volume in spec.get("volumes") or []:
            sources = (volume.get("projected") or {}).get("sources") or []
            if any(source.get("serviceAccountToken") is not None for source in sources):
                detail = "a mirror pod may not use ServiceAccountToken volume projections"
                raise refusal(attributes, detail)


def _wants_token(spec: JsonObject, account: JsonObject) -> bool:
    """The pod's wish counts before the account's."""
    for wish in (spec.get("automountServiceAccountToken"), account.get("automountServiceAccountToken")):
        if wish is not None:
            return bool(wish)
    return True


def mount_token(spec: JsonObject) -> None:
    """Mount the token in every container that has nothing else at its place."""
    volumes: list[JsonObject] = spec.get("volumes") or []
    present = next((one["name"] for one in volumes if (one.get("name") or "").startswith(VOLUME_PREFIX)), None)
    name = present or generated_name(VOLUME_PREFIX)
    needed = False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        mounts = container.get("volumeMounts") or []
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}]
            needed = True
    if needed and present is None:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> JsonObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": 0o644,
    }


def foreign_secret(spec: JsonObject, account: JsonObject) -> str:
    """What an account that enforces its list of secrets has against a pod."""
    owner = account["metadata"]["name"]
    allowed = {one.get("name") for one in account.get("secrets") or []}
    denied = f"is not allowed because service account {owner} does not reference that"
    for volume in spec.get("volumes") or []:
        secret = volume.get("secret")
        if secret is not None and secret.get("secretName") not in allowed:
            return f'volume with secret.secretName="{secret.get("secretName") or ""}" {denied} secret'
    for field, what in (("initContainers", "init container"), ("containers", "container")):
        for container in spec.get(field) or []:
            for source, name in _container_secrets(container):
                if name not in allowed:
                    whose = f"{what} {container.get('name') or ''} with {source}"
                    return f'{whose} referencing secret.secretName="{name}" {denied} secret'
    pullable = {one.get("name") for one in account.get("imagePullSecrets") or []}
    for index, reference in enumerate(spec.get("imagePullSecrets") or []):
        if reference.get("name") not in pullable:
            return f'imagePullSecrets[{index}].name="{reference.get("name") or ""}" {denied} imagePullSecret'
    return ""


def _container_secrets(container: JsonObject) -> list[tuple[str, str]]:
    """Secrets that the environment of a container refers to, and by which entry."""
    found: list[tuple[str, str]] = []
    for variable in container.get("env") or []:
        reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
        if reference is not None:
            found.append((f"envVar {variable.get('name') or ''}", reference.get("name") or ""))
    sources = [source["secretRef"] for source in container.get("envFrom") or [] if source.get("secretRef") is not None]
    found += [("envFrom", reference.get("name") or "") for reference in sources]
    return found


def _secret_names(spec: JsonObject) -> list[str]:
    names = [one.get("name") or "" for one in spec.get("imagePullSecrets") or []]
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field) or []:
            names += [name for _, name in _container_secrets(container)]
    for volume in spec.get("volumes") or []:
        if volume.get("secret") is not None:
            names.append(volume["secret"].get("secretName") or "")
        for source in (volume.get("projected") or {}).get("sources") or []:
            if source.get("secret") is not None:
                names.append(source["secret"].get("name") or "")
    return [name for name in names if name]
