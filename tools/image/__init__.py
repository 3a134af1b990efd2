"""Builds kohort's image without a container engine: an image is a few tar files and JSON documents.

    python -m tools.image [--output DIR] [--name IMAGE]        what `make image` runs

| module | what it does |
|---|---|
| `files` | the files of a layer, and the one tar file they always make |
| `debian` | the base: the files of the Debian packages that Python needs, fetched by apt as this machine is set up |
| `wheels` | the locked packages of kohort and kohort itself, as files of a layer |
| `bytecode` | modules compiled by the very Python that is in the image |
| `oci` | configuration, manifest, layout directory and archive |
| `sbom` | what is inside, as CycloneDX JSON |

Why not buildah, umoci or a Debian bootstrapper: each is one more program that must be installed, needs root or user
namespaces, and runs the maintainer scripts of packages, whose results have to be made reproducible afterwards. Files
of packages need none of that: apt-get and dpkg-deb are on every Debian and Ubuntu machine, nothing runs as root, and no
shell, package manager or Perl gets into the image. What the scripts would have done is little and is done here: the
bundle of certificates, users, and compiled modules. Where the official Python image can be pulled,
`deploy/Containerfile` builds the same with any image builder.

The same packages, the same commit and the same zlib give the same digest. Files carry no times, so two commits share
the layers in which they do not differ; SOURCE_DATE_EPOCH, else the time of the commit, is the time of the image.
"""
