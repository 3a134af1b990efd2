"""Builds the programs of other projects that tests and benchmarks run beside kohort, once, into the cache folder.

    python -m tools.build_programs [all]

The control plane and LeaderWorkerSet are what `make test-kubernetes` needs; with `all` also Kruise Rollouts, Helm
and kubelet, about six minutes more. Programs that exist are not built again.
"""

import shutil
import sys

from tools.helm import build as helm
from tools.kubernetes import build as kubernetes
from tools.lws import build as lws
from tools.rollouts.build import ROLLOUTS

NEEDED = {"the control plane": (kubernetes.find, kubernetes.build), "LeaderWorkerSet": (lws.find, lws.build)}
MORE = {
    "Kruise Rollouts": (ROLLOUTS.find, ROLLOUTS.build),
    "Helm": (helm.find, helm.build),
    "kubelet": (kubernetes.find_kubelet, kubernetes.build_kubelet),
}


def main(words: list[str]) -> None:
    go = shutil.which("go") is not None
    for name, (find, build) in {**NEEDED, **(MORE if "all" in words else {})}.items():
        if find() is None and go:
            build()
        elif find() is None:
            print(f"{name} is not here, and no Go to build it with", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
