"""The how-to page about images: the model server is built, pushed to a registry, pulled and asked."""

import json
from pathlib import Path

from tests.containers.containerd import Containerd
from tests.docs.pages import ROOT, Sandbox, blocks, kubectl, script
from tools.image.build import Built, build_model_server, write


def base_layer(built: Built) -> str:
    manifest = json.loads(built.image.files[f"blobs/{built.image.digest.replace(':', '/')}"])
    digest: str = manifest["layers"][0]["digest"]
    return digest


def test_the_page_about_images(built: Built, node_runtime: Containerd, tmp_path: Path) -> None:
    made = build_model_server(ROOT)
    assert base_layer(made) == base_layer(built), "both have the same Python"
    sandbox = Sandbox(tmp_path, kubectl())
    sandbox.environment["KOHORT_UP_RUNTIME_ENDPOINT"] = node_runtime.endpoint
    sandbox.environment["REGISTRY"] = node_runtime.registry()
    write(made, sandbox.folder / "dist" / "model-server")
    try:
        done = sandbox.run(script(blocks(ROOT / "docs" / "how-to" / "images.md")))
    finally:
        sandbox.close()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"object": "text_completion"' in done.stdout
    assert "stopped (pid" in done.stdout
