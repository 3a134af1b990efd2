"""Rows of the end-to-end checklist against `kohort up`: pods are processes of this machine, each in its own network."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Kohort, directory
from tests.groups.stories import STORIES, Stage

from kohort.kube.client import Client
from kohort.kube.kubeconfig import load
from kohort.kube.resources import NAMESPACES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.geteuid() != 0, reason="networks of pods need root"),
]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kohort]:
    """A cluster whose only node is this machine, for all rows."""
    with directory(tmp_path_factory.mktemp("rows") / "data") as kohort:
        started = kohort.call("up", "--detach", "--port", "0")
        assert started.returncode == 0, started.stderr
        yield kohort


ROWS = ("E1-E15", "E3", "E4", "E6", "E7", "E12-S1", "E16")
"""Those in which processes matter; the others are about what pods are told."""


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_checklist(machine: Kohort, row: str) -> None:
    asyncio.run(_told(machine.kubeconfig, row))


async def _told(kubeconfig: Path, row: str) -> None:
    namespace = row.lower()
    client = Client(load(kubeconfig), field_manager="test")
    try:
        await client.create(NAMESPACES, {"metadata": {"name": namespace}})
        stage = Stage(client, namespace)
        await STORIES[row](stage)
        await stage.clear()
    finally:
        await client.close()
