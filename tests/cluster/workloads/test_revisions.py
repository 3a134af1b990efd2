"""The data of a revision, spelled as the API server spells it: its name is a hash of that."""

import json

from kohort.cluster.workloads.revisions import canonical


def test_data_is_spelled_as_the_api_server_spells_it() -> None:
    """Kubernetes 1.36 refuses a strategic patch of a revision in any other spelling, for data is immutable."""
    data = {"spec": {"b": "x && y < z", "a": [{"d": 1, "c": "\u2028"}]}}
    text = bytes(canonical(data))
    assert text == rb'{"spec":{"a":[{"c":"\u2028","d":1}],"b":"x \u0026\u0026 y \u003c z"}}'
    assert json.loads(text) == data
