"""Runs kubelet and the node agent on the same pods and compares what they make of them: `make twin`.

    python -m tools.record_kubelet [--keep] [CASE ...]

Both run in user-mode-linux with the same containerd and the same API server (tests/kernel/twin). What kubelet makes of
each pod is written to tests/kernel/twin/kubelet.json, with which `make test-kernel` compares the agent; with `--keep`
kubelet does not run, and the file is used as it is. The differences that docs/conformance.md does not explain are
printed, and so are explained ones that are no more; there must be none.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.kernel.machine import in_user_mode_linux, missing
from tests.kernel.twin import nodes
from tests.kernel.twin.comparison import Records, differences, outdated, unexplained
from tests.kernel.twin.differences import KNOWN
from tools.container_packages import missing as missing_packages
from tools.kubernetes.build import build_kubelet

TWIN = Path(nodes.__file__).parent
ORACLE = TWIN / "kubelet.json"
SECONDS = 7200


def recorded(kinds: str, names: list[str]) -> dict[str, Records]:
    """What the nodes make of the cases. RuntimeError if that cannot be found out."""
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "records.json")
        output = in_user_mode_linux([str(TWIN / "inside.py"), str(result), kinds, *names], SECONDS, "3G")
        found: dict[str, Records] = json.loads(result.read_text()) if result.exists() else {}
        if set(found) != set(kinds.split(",")):
            raise RuntimeError(f"not everything was recorded:\n{output[-4000:]}")
        return found


def oracle() -> dict[str, Records]:
    found: dict[str, Records] = json.loads(ORACLE.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    options = parser.parse_args()
    if reason := missing(native=False) or missing_packages():
        sys.exit(f"NOT RUN: {reason}")
    if not options.keep:
        build_kubelet()
        if reason := nodes.missing():
            sys.exit(f"NOT RUN: {reason}")
    found = recorded("kohort" if options.keep else "kubelet,kohort", options.cases)
    kept = oracle() if ORACLE.exists() else {"kubelet": {}}
    kubelet = {**kept["kubelet"], **found.get("kubelet", {})}
    ORACLE.write_text(json.dumps({"kubelet": kubelet}, indent=1, sort_keys=True) + "\n")
    all_found = differences(kubelet, found["kohort"])
    left = [str(each) for each in unexplained(all_found, KNOWN)]
    over = (
        []
        if options.cases
        else [f"no difference any more: {each.what} ({each.path})" for each in outdated(all_found, KNOWN)]
    )
    print("\n".join([*left, *over]))
    print(f"{len(found['kohort'])} pods, {len(all_found)} differences, {len(left)} of them unexplained")
    sys.exit(1 if left or over else 0)


if __name__ == "__main__":
    main()
