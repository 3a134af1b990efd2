"""The lease of a node is the one that a kubelet writes."""

from kohort.rules.node_lease import lease_document


def test_a_lease_belongs_to_its_node_and_lasts_forty_seconds() -> None:
    found = lease_document("node-1", "u1", "2026-01-01T12:00:00.000000Z")
    assert (found["apiVersion"], found["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert (found["metadata"]["name"], found["metadata"]["namespace"]) == ("node-1", "kube-node-lease")
    assert found["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u1"}]
    assert found["spec"] == {
        "holderIdentity": "node-1",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T12:00:00.000000Z",
    }
