"""Content negotiation (specification 1.5)."""

import pytest

from kohort.cluster.apiserver.representation.negotiation import Media, check_content_type, negotiate
from kohort.kube.errors import ApiError
from kohort.kube.http import Request

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF_METADATA = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1beta1;g=meta.k8s.io"
KUBECTL = f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Media()),
        ("*/*", Media()),
        ("application/*, application/json;q=0.5", Media()),
        ("application/json", Media()),
        ("application/yaml", Media("yaml")),
        ("application/vnd.kubernetes.protobuf,application/json", Media()),
        ("application/vnd.kubernetes.protobuf, */*", Media()),
        ("application/vnd.kubernetes.protobuf;stream=watch", Media("protobuf")),
        (f"application/cbor,{PROTOBUF_METADATA}", Media("protobuf", "PartialObjectMetadata", "v1beta1")),
        (f"{PROTOBUF_METADATA},application/json", Media()),
        ("application/cbor, application/yaml", Media("yaml")),
        (TABLE, Media("json", "Table", "v1")),
        (KUBECTL, Media("json", "Table", "v1")),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Media("json", "PartialObjectMetadata")),
        ("application/json;as=Nope;v=v1;g=meta.k8s.io,application/yaml", Media("yaml")),
        ("application/json;q=0.1,application/yaml", Media("yaml")),
        ("application/json;stream=watch", Media()),
        ("application/json;pretty=1", Media(pretty=True)),
    ],
)
def test_the_best_clause_that_we_can_serve_wins(accept: str, expected: Media) -> None:
    assert negotiate(Request("GET", "/", (), {"accept": accept})) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "text/html",
        TABLE.replace("json", "vnd.kubernetes.protobuf"),
        "application/vnd.kubernetes.protobuf;stream=other",
        "application/cbor",
    ],
)
def test_nothing_acceptable(accept: str) -> None:
    with pytest.raises(ApiError) as refused:
        negotiate(Request("GET", "/", (), {"accept": accept}))
    assert (refused.value.code, refused.value.reason) == (406, "NotAcceptable")


def test_custom_resources_have_metadata_but_nothing_else_in_protobuf() -> None:
    assert negotiate(Request("GET", "/", (), {"accept": PROTOBUF_METADATA}), custom=True).format == "protobuf"
    with pytest.raises(ApiError):
        negotiate(Request("GET", "/", (), {"accept": "application/vnd.kubernetes.protobuf"}), custom=True)


@pytest.mark.parametrize(
    ("query", "agent", "pretty"),
    [
        ("", "", False),
        ("true", "", True),
        ("false", "curl/8", False),
        ("", "curl/8", True),
        ("", "Mozilla/5.0 x", True),
    ],
)
def test_people_get_indented_answers(query: str, agent: str, pretty: bool) -> None:
    params = (("pretty", query),) if query else ()
    assert negotiate(Request("GET", "/", params, {"user-agent": agent})).pretty is pretty


def test_content_types_of_bodies() -> None:
    accepted = ("", "application/json", "application/json; charset=utf-8", "application/vnd.kubernetes.protobuf")
    for content_type in accepted:
        check_content_type(Request("POST", "/", (), {"content-type": content_type}))
    with pytest.raises(ApiError) as refused:
        check_content_type(Request("POST", "/", (), {"content-type": "text/plain"}))
    assert (refused.value.code, refused.value.reason) == (415, "UnsupportedMediaType")
    with pytest.raises(ApiError):
        check_content_type(
            Request("POST", "/", (), {"content-type": "application/vnd.kubernetes.protobuf"}), custom=True
        )
