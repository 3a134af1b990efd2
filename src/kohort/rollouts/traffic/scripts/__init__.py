"""Built-in scripts for custom network objects, by group and kind."""

from functools import cache
from importlib.resources import files
from typing import Final

_BUILT_IN: Final = {
    ("networking.istio.io", "VirtualService"): "virtual_service.lua",
    ("networking.istio.io", "DestinationRule"): "destination_rule.lua",
}


@cache
def built_in(group: str, kind: str) -> str | None:
    name = _BUILT_IN.get((group, kind))
    return None if name is None else files(__package__).joinpath(name).read_text()
