"""What the cells of tables are made of: ages, labels, selectors, containers, shortened lists."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from kohort.cluster.apiserver.kinds.model import Cells, Column
from kohort.kube.clock import parse_time
from kohort.objects.json_types import Json, JsonObject
from kohort.objects.selectors import LabelSelector

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"

Printer = tuple[tuple[Column, ...], Cells]
"""The columns of a kind and the function that fills them."""

NAME: Final = Column("Name", format="name", description="Name of the object, unique among its kind in a namespace.")
AGE: Final = Column("Age", description="How long ago the object was created.")
CONTAINERS: Final = Column("Containers", priority=1, description="Names of the containers in the pod template.")
IMAGES: Final = Column("Images", priority=1, description="Images of the containers in the pod template.")
SELECTOR: Final = Column("Selector", priority=1, description="Labels of the pods that belong to the object.")


def text(name: str, description: str, *, wide: bool = False, format: str = "") -> Column:
    return Column(name, format=format, priority=int(wide), description=description)


def integer(name: str, description: str) -> Column:
    return Column(name, "integer", description=description)


def boolean(name: str, description: str) -> Column:
    return Column(name, "boolean", description=description)


def name_of(obj: JsonObject) -> str:
    name: str = obj["metadata"].get("name", "")
    return name


def name_and_age(obj: JsonObject, now: datetime) -> list[Json]:
    return [name_of(obj), age(obj, now)]


def age(obj: JsonObject, now: datetime) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def since(timestamp: str | None, now: datetime) -> str:
    if not timestamp:
        return UNKNOWN
    try:
        moment = parse_time(timestamp)
    except ValueError:
        return "<invalid>"
    return human_duration((now - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds())


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 86400 * 365

_STEPS: Final[tuple[tuple[float, int, str, int, str], ...]] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""Below so many seconds: the unit to count in, and the finer unit for the rest, if it is shown."""


def human_duration(seconds: float) -> str:
    """A duration with two or three significant figures: `119s`, `9m59s`, `179m`, `7h59m`, `47h`, `7d23h`, `729d`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(whole, 0)
    _, unit, letter, finer, finer_letter = next(step for step in _STEPS if whole < step[0])
    rest = whole % unit // finer if finer else 0
    return f"{whole // unit}{letter}" + (f"{rest}{finer_letter}" if rest else "")


def labels_text(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: JsonObject | None, *, empty: str = NONE, invalid: str = "<error>") -> str:
    try:
        return str(LabelSelector.from_object(selector)) or empty
    except ValueError:
        return invalid


def containers_of(template: JsonObject | None) -> list[JsonObject]:
    found: list[JsonObject] = ((template or {}).get("spec") or {}).get("containers") or []
    return found


def names_and_images(template: JsonObject | None) -> list[Json]:
    containers = containers_of(template)
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def shortened(items: Iterable[str], *, empty: str, limit: int = 3) -> str:
    """The first few of many: `a,b,c + 2 more...`."""
    found = list(items)
    if len(found) > limit:
        return f"{','.join(found[:limit])} + {len(found) - limit} more..."
    return ",".join(found) or empty


def condition(obj: JsonObject, type_: str) -> JsonObject | None:
    """The first condition of a type in the status."""
    for found in (obj.get("status") or {}).get("conditions") or ():
        if found.get("type") == type_:
            known: JsonObject = found
            return known
    return None


def counted(path: tuple[str, ...]) -> Callable[[JsonObject, datetime], list[Json]]:
    """Cells of kinds that show how many things they list: name, count, age."""

    def cells(obj: JsonObject, now: datetime) -> list[Json]:
        found: Json = obj
        for step in path:
            found = (found or {}).get(step)
        return [name_of(obj), len(found or ()), age(obj, now)]

    return cells
