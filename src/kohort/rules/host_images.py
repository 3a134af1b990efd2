"""Which images are files of the machine itself.

The node agent runs local root directories. Two kinds of image names reach files that belong to the machine and not to
an image; a container with one of them sees what a `hostPath` volume would show it, so Pod Security counts them as such.

| image                                     | root file system             | of the machine |
|-------------------------------------------|------------------------------|----------------|
| `host`, `host:any-tag`, `host@sha256:…`   | the machine's own            | yes            |
| an absolute path                          | that directory               | yes            |
| a name with a part `.` or `..`            | none: such names are refused | yes            |
| anything else                             | one of the node's images     | no             |
"""

from typing import Final

HOST_IMAGE: Final = "host"


def image_name(image: str) -> tuple[str, str]:
    """Name and tag of an image, without a digest.

    >>> image_name("registry:5000/a/b:v1"), image_name("registry:5000/a"), image_name("host@sha256:00")
    (('registry:5000/a/b', 'v1'), ('registry:5000/a', ''), ('host', ''))
    """
    whole = image.partition("@")[0]
    directory, slash, last = whole.rpartition("/")
    name, _, tag = last.partition(":")
    return f"{directory}{slash}{name}", tag


def is_machine_root(image: str) -> bool:
    """Whether a container with this image has the machine's own root directory.

    >>> is_machine_root("host"), is_machine_root("host:latest"), is_machine_root("example/host")
    (True, True, False)
    """
    return not image.startswith("/") and image_name(image)[0] == HOST_IMAGE


def leaves_images(image: str) -> bool:
    """Whether the name would lead out of the directory of images.

    >>> leaves_images("a/../../etc"), leaves_images("a:.."), leaves_images("a.b/c:1.2")
    (True, True, False)
    """
    name, tag = image_name(image)
    parts = (*name.split("/"), *(tag.split("/") if tag else ()))
    return any(part in ("", ".", "..") for part in parts) or "\0" in image


def uses_machine_files(image: str) -> bool:
    """Whether a container with this image sees files of the machine.

    >>> [uses_machine_files(image) for image in ("host", "/srv/root", "../x", "web:v1")]
    [True, True, True, False]
    """
    return image.startswith("/") or is_machine_root(image) or leaves_images(image)
