"""What pods on simulated nodes use, for `kubectl top` and for autoscalers.

Nothing runs there. A pod with the annotation `simulation.kohort.dev/usage: cpu=900m,memory=2Gi` uses that, in equal
shares of its containers; otherwise every container uses half of what it requests, and nothing if it requests nothing.
"""

from typing import Final

from kohort.objects.json_types import JsonObject
from kohort.objects.quantity import Quantity
from kohort.rules.simulation_labels import USAGE

RESOURCES: Final = ("cpu", "memory")


class InvalidUsage(ValueError):
    """The annotation cannot be read."""


def parse_usage(text: str) -> dict[str, Quantity]:
    """
    >>> parse_usage("cpu=900m, memory=2Gi")["cpu"].milli
    900
    """
    found: dict[str, Quantity] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, amount = (part.strip() for part in item.partition("="))
        try:
            quantity = Quantity.parse(amount)
        except ValueError:
            quantity = Quantity(-1)
        if name not in RESOURCES or quantity.nano < 0:
            raise InvalidUsage(f"{item!r} is not an amount of cpu or memory, such as cpu=900m or memory=2Gi")
        found[name] = quantity
    return found


def container_usage(pod: JsonObject) -> dict[str, dict[str, Quantity]]:
    """By container and resource; an annotation that cannot be read counts as none."""
    containers = pod["spec"].get("containers") or ()
    try:
        given = parse_usage((pod["metadata"].get("annotations") or {}).get(USAGE, ""))
    except InvalidUsage:
        given = {}
    return {
        one["name"]: {
            name: Quantity(given[name].nano // len(containers)) if name in given else _half_of_request(one, name)
            for name in RESOURCES
        }
        for one in containers
    }


def _half_of_request(container: JsonObject, name: str) -> Quantity:
    requests = (container.get("resources") or {}).get("requests") or {}
    return Quantity(Quantity.parse(requests.get(name, "0")).nano // 2)
