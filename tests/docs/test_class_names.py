"""A class name means one thing: readers find it by name, without knowing the package.

Packages that people read first (the dashboard, the command line, what explains sets, `kohort up`) must have names of
their own. Inside the parts that rebuild Kubernetes, words such as Container or Node are those of its API.
"""

import ast
from collections import defaultdict
from typing import Final

from tests.docs.test_architecture import SOURCE

OWN: Final = ("cli", "dashboard", "inspection", "demo", "up", "install")
ALLOWED: Final = {
    "CannotStart": "of a cluster, and of a container: both end a start, each in its own part",
    "Cause": "the one of `kohort explain`, and why a DaemonSet writes an event",
    "Changes": "those a command waits for, and those a watch of the storage brings",
    "Command": "one that is advised, and that of a container, as its API calls it",
    "End": "how a process of a cluster ended, and how a Job did",
    "EndReason": "of a process of a cluster, and of a release",
    "Line": "of `kohort list`, and of a log",
    "Part": "of a cluster that `kohort up` supervises, and of one in a test",
    "PodResources": "as a page shows them, and as devices of a pod are recorded",
    "Problem": "that explains a pod, and that stops an action of a release",
    "Report": "of `kohort up --status`, and of a pod's status",
    "Restart": "of a process of a cluster, and of a group",
    "Server": "a pretended model server, and a gRPC server",
    "Session": "of a browser, and with a container",
    "StoredRevision": "the same object, read for people and for the workload controllers",
    "Subject": "what a release is about, and whom a role is bound to",
    "Supervisor": "of the processes of a cluster, and of those of a container",
    "User": "of the dashboard, and of the API server",
    "Verb": "of an advised command, and of an action of the dashboard",
    "Version": "of a workload, and the value of a CEL function",
    "View": "a page, and a typed view of an object",
}


def places() -> dict[str, set[str]]:
    """The packages in which each public class name is defined."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        for one in ast.parse(path.read_text()).body:
            if isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
                found[one.name].add(path.relative_to(SOURCE).with_suffix("").as_posix())
    return found


def test_class_names_of_the_packages_that_people_read_first_are_unique() -> None:
    shared = {
        name: sorted(modules)
        for name, modules in places().items()
        if len(modules) > 1 and any(one.partition("/")[0] in OWN for one in modules)
    }
    assert {name: modules for name, modules in shared.items() if name not in ALLOWED} == {}
    assert sorted(ALLOWED.keys() - shared.keys()) == [], "names that are not shared any more"
