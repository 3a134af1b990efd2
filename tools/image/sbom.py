"""What is inside, as CycloneDX JSON: for scanners, and for people who must know."""

import json
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from tools.image.build import Built

VERSION: Final = "1.5"
_PURPOSE: Final = uuid.UUID("5a5d5a3e-6c0c-5f8e-9d0e-2f6b6f1f5c11")
"""Names the space of serial numbers; the same content gets the same number."""


@dataclass(frozen=True)
class Component:
    kind: str
    """pypi or deb."""
    name: str
    version: str
    sha256: str
    architecture: str = ""
    distribution: tuple[str, str] = ("debian", "")
    """Its name and version; scanners look for known problems there."""

    @property
    def purl(self) -> str:
        version = quote(self.version, safe="")
        if self.kind == "deb":
            name, release = self.distribution
            distro = f"&distro={name}-{release}" if release else ""
            return f"pkg:deb/{name}/{quote(self.name, safe='')}@{version}?arch={self.architecture}{distro}"
        return f"pkg:{self.kind}/{self.name}@{version}"

    def as_json(self) -> dict[str, Any]:
        return {
            "type": "library",
            "bom-ref": self.purl,
            "name": self.name,
            "version": self.version,
            "purl": self.purl,
            "hashes": [{"alg": "SHA-256", "content": self.sha256}],
        }


def image_components(built: "Built") -> list[Component]:
    distribution = built.base.distribution
    found = [
        Component("deb", one.name, one.version, one.sha256, one.architecture, distribution)
        for one in built.base.packages
    ]
    return found + [Component("pypi", one.name, one.version, one.sha256) for one in built.wheels]


def render(name: str, version: str, created: int, components: list[Component]) -> str:
    """The same components and time make the same document."""
    listed = [one.as_json() for one in sorted(components, key=lambda one: one.purl)]
    subject = {"type": "container", "bom-ref": "subject", "name": name, "version": version}
    serial = uuid.uuid5(_PURPOSE, json.dumps([subject, created, listed], sort_keys=True))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": VERSION,
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": subject,
        },
        "components": listed,
        "dependencies": [{"ref": "subject", "dependsOn": [one["bom-ref"] for one in listed]}],
    }
    return json.dumps(document, indent=2) + "\n"
