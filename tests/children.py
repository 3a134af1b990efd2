"""Programs that tests start. They import what the tests import, wherever they are started."""

import os
import sys


def imports() -> dict[str, str]:
    """An environment with nothing else in it."""
    return {"PYTHONPATH": os.pathsep.join(sys.path)}


def environment(**more: str) -> dict[str, str]:
    """That of the tests themselves, with what is named."""
    return {**os.environ, **imports(), **more}
