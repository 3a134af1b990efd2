"""The annotation for mount options of PersistentVolumes, which is older than the field for the same."""

import pytest
from tests.cluster.apiserver.caller import Api

from kohort.objects.json_types import JsonObject

VOLUMES = "/api/v1/persistentvolumes"
ANNOTATION = "volume.beta.kubernetes.io/mount-options"
REFUSED = f"metadata.annotations.{ANNOTATION}: Forbidden: may not specify mount options for this volume type"
NFS = {"nfs": {"server": "files", "path": "/"}}


def volume(source: JsonObject, annotations: JsonObject) -> JsonObject:
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    metadata = {"name": "v", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize("options", ["ro", ""])
@pytest.mark.parametrize(
    "source", [{"hostPath": {"path": "/srv"}}, {"csi": {"driver": "d.example", "volumeHandle": "h"}}]
)
async def test_sources_that_are_not_mounted_with_options_refuse_them(
    admitting: Api, source: JsonObject, options: str
) -> None:
    refused = await admitting.post(VOLUMES, volume(source, {ANNOTATION: options}))
    assert (refused.code, refused.message) == (422, f'PersistentVolume "v" is invalid: {REFUSED}')
    assert (await admitting.post(VOLUMES, volume({**source, "mountOptions": ["ro"]}, {}))).code == 201
    changed = await admitting.patch(f"{VOLUMES}/v", {"metadata": {"annotations": {ANNOTATION: options}}})
    assert (changed.code, changed.message) == (422, f'PersistentVolume "v" is invalid: {REFUSED}')


async def test_sources_that_are_mounted_with_options_may_have_them(admitting: Api) -> None:
    assert (await admitting.post(VOLUMES, volume(NFS, {ANNOTATION: "ro"}))).code == 201
