"""The image as it comes from `make image`: small, and fit for the Deployment of the operator."""

import json

from tests.image.containerd import Container, Containerd
from tools.image.build import Built

from kohort import __version__
from kohort.install.options import TAGGED

LARGEST = 50_000_000
STATE = """\
import json, os, ssl, sys
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
def refused(path):
    try:
        open(path, "w").close()
    except OSError as problem:
        return problem.errno
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "capabilities": [int(status[name], 16) for name in ("CapBnd", "CapEff", "CapPrm")],
    "filtered": status["Seccomp"],
    "root": refused("/usr/local/lib/x"),
    "tmp": refused("/tmp/x"),
    "certificates": len(ssl.create_default_context().get_ca_certs()),
    "shells": [one for one in ("/bin/sh", "/bin/bash", "/usr/bin/dpkg", "/usr/bin/perl") if os.path.exists(one)],
}))
"""


def test_it_is_small_and_says_what_it_is(built: Built, runtime: Containerd) -> None:
    assert built.image.size < LARGEST
    assert runtime.digest(TAGGED) == built.image.digest
    config = runtime.configuration(TAGGED)["config"]
    assert isinstance(config, dict)
    assert (config["Entrypoint"], config["Cmd"], config["User"]) == (["kohort"], ["operator"], "65532:65532")
    assert config["Labels"]["org.opencontainers.image.version"] == __version__


def test_kohort_runs_in_it(runtime: Containerd) -> None:
    assert runtime.run(Container("version", TAGGED, ["kohort", "version"])).strip() == f"kohort {__version__}"


def test_modules_are_compiled(runtime: Containerd) -> None:
    """The root is read-only, so a start that has to compile would do so at every start."""
    program = "import kohort.cli.operator as one, json as two; print(one.__cached__, two.__cached__)"
    check = f"import os; {program}; assert all(os.path.exists(x.__cached__) for x in (one, two))"
    assert ".cpython-" in runtime.run(Container("compiled", TAGGED, ["python3", "-c", check]))


def test_it_has_no_rights_and_no_shell(runtime: Containerd) -> None:
    state = json.loads(runtime.run(Container("state", TAGGED, ["python3", "-c", STATE])))
    assert state["user"] == [65532, 65532]
    assert state["capabilities"] == [0, 0, 0]
    assert state["filtered"].strip() == "2"
    assert state["root"] == 30, "a read-only file system"
    assert state["tmp"] is None
    assert state["certificates"] > 100
    assert state["shells"] == []
