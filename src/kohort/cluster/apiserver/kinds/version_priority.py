"""The order of versions of an API group: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all other names."""

import re

_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_MATURITY = {None: 0, "beta": 1, "alpha": 2}


def version_priority(version: str) -> tuple[int, int, int, str]:
    """Sort key: stable before beta before alpha, higher numbers first, unparseable names last."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    major, maturity, minor = match.groups()
    return (_MATURITY[maturity], -int(major), -int(minor or 0), "")
