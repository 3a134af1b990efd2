"""ConfigMaps, Secrets, ServiceAccounts."""

import base64
import binascii
from typing import Final

import msgspec

from kohort.cluster.apiserver.kinds.model import Strategy, WriteContext
from kohort.cluster.apiserver.schema.field_checks import WHOLE_OBJECT, Errors, immutable, named
from kohort.objects import well_known_names
from kohort.objects.field_errors import FieldError, forbidden, invalid, required, too_long
from kohort.objects.json_types import JsonObject
from kohort.objects.names import config_key

SIZE_LIMIT: Final = 1024 * 1024
_FROZEN: Final = "field is immutable when `immutable` is set"


def _check_frozen(errors: Errors, obj: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> None:
    if not old.get("immutable"):
        return
    if not obj.get("immutable"):
        errors.append(forbidden("immutable", _FROZEN))
    errors += [forbidden(field, _FROZEN) for field in fields if (obj.get(field) or {}) != (old.get(field) or {})]


class ConfigMapStrategy(Strategy):
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        for key in data:
            named(errors, f"data[{key}]", key, config_key)
            if key in binary:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            named(errors, f"binaryData[{key}]", key, config_key)
        size = sum(len(text.encode()) for text in data.values()) + sum(map(_decoded_size, binary.values()))
        if size > SIZE_LIMIT:
            errors.append(too_long(WHOLE_OBJECT, SIZE_LIMIT))
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        _check_frozen(errors, obj, old, ("data", "binaryData"))
        return errors + self.validate(context, obj)


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")


_REQUIRED_KEYS: Final = {
    well_known_names.DOCKER_CONFIG: ".dockercfg",
    well_known_names.DOCKER_CONFIG_JSON: ".dockerconfigjson",
}


class SecretStrategy(Strategy):
    has_status = False
    has_generation = False
    rechecks_metadata = 1

    def default(self, obj: JsonObject) -> None:
        if not obj.get("type"):
            obj["type"] = "Opaque"
        plain = obj.pop("stringData", None)
        if plain:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, context: WriteContext, obj: JsonObject) -> list[FieldError]:
        errors: Errors = []
        data = obj.get("data") or {}
        for key in data:
            named(errors, f"data[{key}]", key, config_key)
        if sum(map(_decoded_size, data.values())) > SIZE_LIMIT:
            errors.append(too_long("data", SIZE_LIMIT))
        _check_secret_type(errors, obj, data)
        return errors

    def validate_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> list[FieldError]:
        errors: Errors = []
        immutable(errors, "type", obj.get("type"), old.get("type"))
        _check_frozen(errors, obj, old, ("data",))
        return errors + self.validate(context, obj)


def _check_secret_type(errors: Errors, secret: JsonObject, data: JsonObject) -> None:
    kind = secret.get("type")
    if kind == well_known_names.SERVICE_ACCOUNT_TOKEN:
        if not (secret["metadata"].get("annotations") or {}).get(well_known_names.SERVICE_ACCOUNT_NAME):
            errors.append(required("metadata.annotations[kubernetes.io/service-account.name]"))
    elif kind in _REQUIRED_KEYS:
        key = _REQUIRED_KEYS[kind]
        if key not in data:
            errors.append(required(f"data[{key}]"))
        elif not _is_json_object(data[key]):
            errors.append(invalid(f"data[{key}]", "<secret contents redacted>", "must be a JSON object"))
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.append(required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        errors += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


def _is_json_object(encoded: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(base64.b64decode(encoded)), dict)
    except (binascii.Error, ValueError):
        return False


_MOUNTABLE_SECRETS: Final = well_known_names.MOUNTABLE_SECRETS


class ServiceAccountStrategy(Strategy):
    has_status = False
    has_generation = False
    deletion_returns_object = True
    rechecks_metadata = 1

    def warnings(self, context: WriteContext, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if _MOUNTABLE_SECRETS not in (obj["metadata"].get("annotations") or {}):
            return []
        detail = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE_SECRETS}]: {detail}"]

    def prepare_create(self, context: WriteContext, obj: JsonObject) -> None:
        """References to secrets are names; all else about them is ignored."""
        if obj.get("secrets"):
            obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in obj["secrets"]]

    def prepare_update(self, context: WriteContext, obj: JsonObject, old: JsonObject) -> None:
        self.prepare_create(context, obj)
