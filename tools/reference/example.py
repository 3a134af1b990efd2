"""The objects of the demo as one file: what `kohort demo` applies can be applied by hand."""

from textwrap import indent

from kohort.demo import manifests

HEAD = """\
# A language model in shards, made of real processes: what `kohort demo` runs, to be applied by hand. The leader of each
# group speaks the streaming API of OpenAI; its workers hold parts of the model and answer the leader over TCP.
# Needs a node that is this machine (`kohort up`, without simulated nodes) with a python3. The address is
# in `kubectl get gateway front`; then
#   curl -N $ADDRESS/v1/completions -d '{"prompt": "a group is", "max_tokens": 20, "stream": true}'
# Made from src/kohort/demo by `make reference`.
"""


def text() -> str:
    program = manifests.program()
    (name,) = program["data"]
    lines = [
        "apiVersion: v1",
        "kind: ConfigMap",
        "metadata:",
        f"  name: {program['metadata']['name']}",
        "data:",
        f"  {name}: |",
        indent(program["data"][name], "    ").rstrip("\n"),
        "---",
    ]
    return HEAD + "\n".join(lines) + "\n" + manifests.plan()
