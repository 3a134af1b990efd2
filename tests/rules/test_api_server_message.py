"""Messages of kube-apiserver, quoted from Kubernetes."""

import pytest

from kohort.rules.api_server_message import RequestRefusal, request_refusal


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (
            'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "default"',
            RequestRefusal.RIGHT_MISSING,
        ),
        (
            'forbidden: User "system:anonymous" cannot get path "/metrics"',
            RequestRefusal.RIGHT_MISSING,
        ),
        (
            'pods "llm-1" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=2, limited: pods=2',
            RequestRefusal.QUOTA_EXCEEDED,
        ),
        (
            'pods "llm-1" is forbidden: failed quota: gpus: must specify cpu for: main',
            RequestRefusal.QUOTA_EXCEEDED,
        ),
        (
            'create Pod llm-0 in StatefulSet llm failed error: pods "llm-0" is forbidden: exceeded quota: gpus, '
            "requested: pods=1, used: pods=0, limited: pods=0",
            RequestRefusal.QUOTA_EXCEEDED,
        ),
        (
            'pods "llm-0" is forbidden: node didn\'t have enough allocatable resources: cpu, requested: 64000, '
            "allocatable: 8000",
            RequestRefusal.NODE_TOO_SMALL,
        ),
        (
            'pods "llm-0" is forbidden: maximum cpu usage per Container is 500m, but limit is 600m',
            RequestRefusal.OUTSIDE_LIMIT_RANGE,
        ),
        (
            'pods "llm-0" is forbidden: minimum memory usage per Pod is 1Gi, but request is 64Mi',
            RequestRefusal.OUTSIDE_LIMIT_RANGE,
        ),
        (
            'pods "llm-0" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is '
            "4.000000",
            RequestRefusal.OUTSIDE_LIMIT_RANGE,
        ),
        (
            'Pod "llm-0" is invalid: spec.containers[0].resources.requests: Invalid value: "600m": must be less than '
            "or equal to cpu limit of 500m",
            RequestRefusal.REQUEST_ABOVE_LIMIT,
        ),
        (
            'pods "llm-0" is forbidden: pod update requires features InPlacePodLevelResourcesVerticalScaling which are '
            'not available on node "n"',
            RequestRefusal.NODE_FEATURE_MISSING,
        ),
        ("the server could not find the requested resource", RequestRefusal.KIND_NOT_SERVED),
        ("404 page not found\n", RequestRefusal.KIND_NOT_SERVED),
        ('pods "llm-0" not found', None),
        ('pods "quota" is forbidden: violates PodSecurity "restricted:latest": host namespaces', None),
        ('pods "it cannot be" is forbidden: admission webhook "a.b.c" denied the request: no', None),
    ],
)
def test_a_refusal_is_recognized_by_its_words(message: str, refusal: RequestRefusal | None) -> None:
    assert request_refusal(message) is refusal
