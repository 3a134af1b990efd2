from kohort.cluster.apiserver.http.protostatus import encode_status
from kohort.cluster.apiserver.schema import protobuf
from kohort.kube import errors
from kohort.kube.errors import StatusCause


def test_a_status_reads_back_as_it_was() -> None:
    error = errors.failure(
        429, "TooManyRequests", "not now", name="p", kind="pods", causes=[StatusCause("A", "b", "c")], retry_after=300
    )
    assert {"metadata": {}, **protobuf.decode(encode_status(error.status))} == error.to_json()
