"""A released LeaderWorkerSet manager for takeover tests and benchmarks.

python3 -m tools.lws.build            prints the path of the program
"""

from pathlib import Path

from tools.released_operator import Released, main

VERSION = "0.9.0"
LWS = Released(
    name="lws",
    version=VERSION,
    module="sigs.k8s.io/lws",
    package="sigs.k8s.io/lws/cmd",
    folders=("config",),
    source=Path(__file__).resolve().parent,
)
find, build = LWS.find, LWS.build


def program() -> Path:
    return LWS.program


def installation() -> Path:
    """The folder with what that release is installed with, for kustomize."""
    return LWS.folder("config")


def definitions() -> Path:
    """The folder with the definitions as that release ships them."""
    return installation() / "crd" / "bases"


if __name__ == "__main__":
    main(LWS)
