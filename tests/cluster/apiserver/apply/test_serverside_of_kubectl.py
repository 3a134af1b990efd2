"""kubectl, when it applies on the server what it has applied on the client side before."""

import json
from copy import deepcopy

from tests.cluster.apiserver.apply.appliers import CONFIG_MAP, T0, apply, config_map, owners, patched, refusal

from kohort.cluster.apiserver.apply import serverside
from kohort.cluster.apiserver.apply.managed import record_update
from kohort.objects.json_types import JsonObject


def client_side_applied() -> JsonObject:
    last = config_map({"a": "1", "b": "1"}, namespace="fz")
    live = deepcopy(last)
    live["metadata"]["annotations"] = {serverside.LAST_APPLIED: json.dumps(last) + "\n"}
    record_update(None, live, CONFIG_MAP, manager="kubectl-client-side-apply", api_version="v1", time=T0)
    return live


def test_kubectl_takes_over_what_it_applied_on_the_client_side() -> None:
    intent = config_map({"a": "2", "b": "<1>"}, namespace="fz")
    obj = apply(client_side_applied(), intent, "kubectl")
    assert obj["data"] == {"a": "2", "b": "<1>"}
    assert obj["metadata"]["annotations"][serverside.LAST_APPLIED] == (
        '{"apiVersion":"v1","data":{"a":"2","b":"\\u003c1\\u003e"},"kind":"ConfigMap",'
        '"metadata":{"name":"a","namespace":"fz"}}\n'
    )
    assert owners(obj) == {
        "kubectl Apply": {"f:data": {"f:a": {}, "f:b": {}}},
        "kubectl-client-side-apply Update": {
            "f:data": {},
            "f:metadata": {"f:annotations": {".": {}, f"f:{serverside.LAST_APPLIED}": {}}},
        },
    }


def test_other_managers_do_not() -> None:
    assert refusal(client_side_applied(), config_map({"a": "2"}), "me").code == 409


def test_kubectl_does_not_take_fields_that_another_manager_changed_since() -> None:
    live = patched(client_side_applied(), {"data": {"a": "1", "b": "9"}}, "other")
    error = refusal(live, config_map({"a": "3", "b": "1"}), "kubectl")
    assert error.message == 'Apply failed with 1 conflict: conflict with "other" using v1: .data.b'
