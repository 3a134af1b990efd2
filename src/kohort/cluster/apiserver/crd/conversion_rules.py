"""Validation of the `conversion` of a definition."""

import re
from collections.abc import Iterator

from kohort.objects.field_errors import FieldError, forbidden, invalid, not_supported, required
from kohort.objects.json_types import JsonObject
from kohort.objects.names import dns1035_label, dns1123_subdomain

_REVIEWS = ("v1", "v1beta1")
_URL_FORM = "desired format: https://host[/path]"
_PLAIN_URL = re.compile(r"https://[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]+)?(?:/[A-Za-z0-9._/-]*)?", re.ASCII)


def conversion_errors(conversion: JsonObject | None, path: str) -> Iterator[FieldError]:
    if conversion is None:
        return
    strategy = conversion.get("strategy") or ""
    webhook = conversion.get("webhook") or {}
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    if not strategy:
        yield required(f"{path}.strategy")
    elif strategy not in ("None", "Webhook"):
        yield not_supported(f"{path}.strategy", strategy, ("None", "Webhook"))
    if strategy == "Webhook":
        yield from _client_errors(client, f"{path}.webhookClientConfig")
        yield from _review_errors(reviews, f"{path}.conversionReviewVersions")
        return
    detail = "should not be set when strategy is not set to Webhook"
    if client is not None:
        yield forbidden(f"{path}.webhookClientConfig", detail)
    if reviews:
        yield forbidden(f"{path}.conversionReviewVersions", detail)


def _client_errors(client: JsonObject | None, path: str) -> Iterator[FieldError]:
    if client is None:
        yield required(path, "required when strategy is set to Webhook")
        return
    url, service = client.get("url"), client.get("service")
    if url is not None and service is None:
        yield from url_errors(url, f"{path}.url")
    elif service is not None and url is None:
        yield from service_errors(service, f"{path}.service")
    else:
        yield required(path, "exactly one of url or service is required")


def url_errors(text: str, path: str) -> Iterator[FieldError]:
    """The URL of a webhook: https, a host, nothing behind the path."""
    if _PLAIN_URL.fullmatch(text):
        return  # as nearly always, and the grammar of URLs comes with all of the expression language
    from kohort.cluster.apiserver.cel.functions.urls import parse as parse_url

    main, _, fragment = text.partition("#")
    try:
        url = parse_url(main, fragments=True)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}; {_URL_FORM}")
        return
    if url.scheme != "https":
        yield invalid(path, url.scheme, f"'https' is the only allowed URL scheme; {_URL_FORM}")
    if not url.host:
        yield invalid(path, url.host, f"host must be specified; {_URL_FORM}")
    if "@" in main.partition("//")[2].partition("/")[0]:
        yield invalid(path, main, "user information is not permitted in the URL")
    if fragment:
        yield invalid(path, fragment, "fragments are not permitted in the URL")
    if url.query:
        yield invalid(path, url.query, "query parameters are not permitted in the URL")


def service_errors(service: JsonObject, path: str) -> Iterator[FieldError]:
    for key in ("name", "namespace"):
        if not service.get(key):
            yield required(f"{path}.{key}")
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        detail = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", port, detail)
    if service.get("path"):
        yield from _path_errors(service["path"], f"{path}.path")


def _path_errors(text: str, path: str) -> Iterator[FieldError]:
    if text == "/":
        return
    if text == "//":
        yield invalid(path, text, "segment[0] may not be empty")
        return
    if not text.startswith("/"):
        yield invalid(path, text, "must start with a '/'")
    segments = text[1:].removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            yield invalid(path, text, f"segment[{index}] may not be empty")
            continue
        for problem in dns1123_subdomain(segment):
            yield invalid(path, text, f"segment[{index}]: {problem}")


def _review_errors(reviews: list[str], path: str) -> Iterator[FieldError]:
    if not reviews:
        yield required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(reviews):
        if version in seen:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for problem in dns1035_label(version):
            yield invalid(f"{path}[{index}]", version, problem)
    if not seen & set(_REVIEWS):
        yield invalid(path, reviews, f"must include at least one of {', '.join(_REVIEWS)}")
