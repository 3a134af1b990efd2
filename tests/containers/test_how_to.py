"""The how-to page about containers, followed with a real container runtime, through `kohort up` and kubectl."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.containers.containerd import image_archive
from tests.containers.runtime import RuntimeUnderTest
from tests.docs.pages import ROOT, Sandbox, blocks, kubectl, script

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


def test_the_page_about_containers(runtime: RuntimeUnderTest, tmp_path: Path) -> None:
    runtime.load(image_archive("docker.io/library/busybox:1.36"))
    sandbox = Sandbox(tmp_path, kubectl())
    sandbox.environment["KOHORT_UP_RUNTIME_ENDPOINT"] = runtime.endpoint
    try:
        done = sandbox.run(script(blocks(ROOT / "docs" / "how-to" / "containers.md")))
    finally:
        sandbox.close()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"containers run in {runtime.name} " in done.stderr
    for words in ("started\n", "/bin/busybox\n", "stopped (pid"):
        assert words in done.stdout


def test_containerd_accepts_the_configuration_on_the_page(tmp_path: Path) -> None:
    if shutil.which("containerd") is None:
        pytest.skip("there is no containerd")
    page = (ROOT / "docs" / "how-to" / "containers.md").read_text()
    (configuration,) = re.findall(r"^```\n(version = 2\n.*?)^```", page, re.DOTALL | re.MULTILINE)
    file = tmp_path / "config.toml"
    file.write_text(configuration)
    words = ["containerd", "--config", str(file), "config", "dump"]
    read = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    for line in configuration.splitlines():
        if "=" in line and not line.startswith("version"):
            assert line.strip() in read
