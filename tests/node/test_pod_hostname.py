"""Host names of pods."""

import pytest
from tests.builders import pod as build

from kohort.node.pod_hostname import hostname_of, kernel_name_of, subdomain_of
from kohort.objects.node_pods import NodePod


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("p", "p", "")),
        ({"hostname": "h", "subdomain": "s"}, ("h", "h", "s")),
        ({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True}, ("h", "h.s.default.svc.cluster.local", "s")),
        ({"hostname": "h", "subdomain": "s", "hostnameOverride": "other.example"}, ("other.example",) * 2 + ("",)),
    ],
)
def test_host_names(fields: dict[str, object], expected: tuple[str, str, str]) -> None:
    pod = build("p").merged("spec", fields).as_view(NodePod)
    assert (hostname_of(pod), kernel_name_of(pod), subdomain_of(pod)) == expected
