"""Events of the StatefulSet controller, quoted from Kubernetes."""

import pytest

from kohort.rules.stateful_set_event import FailedCreate, failed_create


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (
            'create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: exceeded quota: compute, '
            "requested: pods=1, used: pods=2, limited: pods=2",
            FailedCreate(
                "web-0",
                'pods "web-0" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2',
            ),
        ),
        (
            'Create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: error looking up service '
            'account default/model: serviceaccount "model" not found',
            FailedCreate(
                "web-0",
                'pods "web-0" is forbidden: error looking up service account default/model: serviceaccount "model" not '
                "found",
            ),
        ),
        (
            "create Claim www-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "
            '"www-web-0" is forbidden: exceeded quota: storage, requested: persistentvolumeclaims=1, used: '
            "persistentvolumeclaims=1, limited: persistentvolumeclaims=1",
            FailedCreate(
                "web-0",
                'persistentvolumeclaims "www-web-0" is forbidden: exceeded quota: storage, requested: '
                "persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1",
            ),
        ),
        ("create Pod web-0 in StatefulSet web successful", None),
        ("Create Claim www-web-0 Pod web-0 in StatefulSet web success", None),
        ("delete Pod web-0 in StatefulSet web failed error: the server was unable to return a response", None),
        ("Failed to create worker statefulset for leader pod web-0: no", None),
    ],
)
def test_which_pod_was_not_created_and_why(message: str, found: FailedCreate | None) -> None:
    assert failed_create(message) == found
