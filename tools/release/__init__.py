"""Everything a release consists of, by one command from a tagged commit.

    python -m tools.release [--output DIR]        what `make release` runs

| module | what it does |
|---|---|
| `version` | which version is released, and why it cannot be |
| `build` | wheel, sdist, image, chart, manifests, list of contents, checksums |

It is built from an export of the commit, so files that are not committed cannot get in. The image comes first, because
the package, the chart and the manifests name it by digest; the kohort inside the image is the same without that one
file. Times are those of the commit, so a second run makes the same bytes, as long as apt has the same packages
(`base.lock` is part of the release for that).
"""
