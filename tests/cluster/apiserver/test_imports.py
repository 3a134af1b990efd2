"""Imports of the API server: no cycles between modules, and imports inside functions only to start sooner.

The order of the packages is a contract of import-linter, in pyproject.toml.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import kohort

SOURCES: Final = Path(kohort.__file__).parent
PACKAGE: Final = "kohort.cluster.apiserver"

LATE: Final = {
    "admission.expressions": "expressions of webhooks and policies",
    "admission.policies": "the first admission policy",
    "admission.webhooks": "the first webhook configuration",
    "apply.intent_validation": "the first server-side apply",
    "apply.serverside": "the first server-side apply",
    "cel": "the first expression",
    "cel.admission_environments": "the first expression of a webhook or policy",
    "cel.functions.urls": "the first definition of custom resources that has a URL",
    "crd.definitions": "the first definition of custom resources",
    "crd.field_paths": "the first validation rule of a definition",
    "crd.rule_compilation": "the first validation rule of a definition",
    "crd.validation": "the first write of a definition",
    "crd.validation_rules": "the first validation rule of a definition",
    "http.aiohttp_fallback": "the first request that needs aiohttp, which is a fifth of a start",
    "kinds.admission_expressions": "the first webhook with match conditions",
    "kinds.device_expressions": "the first class or claim of devices that selects them",
    "outgoing.remote_servers": "the first aggregated API server",
    "patch.jsonpatch": "the first patch of its type",
    "patch.merge": "the first patch of its type",
    "patch.strategic": "the first patch of its type",
    "representation.tables": "the first table",
    "schema.list_uniqueness": "the first definition with defaults",
    "schema.protobuf_decode": "the first body in protobuf",
    "schema.protobuf_encode": "the first answer in protobuf",
    "schema.validate": "the first custom resource",
    "schema.yaml_body": "the first body in YAML",
}
"""Modules that are imported inside functions, and what needs them. Nothing of a start does."""

START: Final = """
import asyncio, sys
import kohort.cluster.apiserver.__main__
from kohort.cluster.apiserver.server_setup import assemble
from kohort.cluster.apiserver.storage.store import open_store

async def start():
    server, _ = await assemble(open_store(None))
    await server.close()

asyncio.run(start())
print("\\n".join(sys.modules))
"""


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in (SOURCES / "cluster/apiserver").rglob("*.py"):
        name = ".".join(("kohort", *path.relative_to(SOURCES).with_suffix("").parts)).removesuffix(".__init__")
        found[name] = ast.parse(path.read_text())
    return found


MODULES: Final = modules()


def imported(node: ast.AST) -> Iterator[str]:
    """The modules of the API server that are imported anywhere below a node."""
    for below in ast.walk(node):
        if isinstance(below, ast.ImportFrom) and below.module in MODULES:
            for alias in below.names:
                inner = f"{below.module}.{alias.name}"
                yield inner if inner in MODULES else below.module


def test_modules_have_no_cycles_even_through_imports_inside_functions() -> None:
    graph = {name: set(imported(tree)) - {name} for name, tree in MODULES.items()}
    assert len(list(TopologicalSorter(graph).static_order())) == len(MODULES)  # CycleError names the modules


def test_imports_inside_functions_are_the_documented_ones() -> None:
    functions = (
        node
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert {name.removeprefix(f"{PACKAGE}.") for node in functions for name in imported(node)} == LATE.keys()


def test_a_start_loads_none_of_the_modules_that_are_imported_inside_functions() -> None:
    loaded = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True).stdout.split()
    assert f"{PACKAGE}.server" in loaded
    assert {name for name in LATE if f"{PACKAGE}.{name}" in loaded} == set()
