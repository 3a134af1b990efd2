"""Everything that a dashboard answers, asked by a user of one namespace: nothing of another one may be in it.

The paths come from the dashboard itself, so that a new view is asked, too. Names of objects of the other namespace have
`SECRET` in them, so do their images and labels.
"""

import asyncio
from collections.abc import Iterator
from itertools import product

import msgspec
import pytest
from tests.dashboard.scene import Visit

from kohort.dashboard import server
from kohort.dashboard.commands import PARAMETERS, Verb
from kohort.dashboard.running import RunningDashboard

SECRET = "secret-model"
OWN, OTHER = "east", "west"
QUERIES = {
    "/dashboard/": ("", f"?namespace={OTHER}", "?name=secret", f"?label=app={SECRET}", "?state=Available", "?page=2"),
    "/dashboard/what-if": ("", f"?set={OTHER}/{{name}}"),
    "/dashboard/nodes": ("", "?page=2"),
}
GIVEN = {"cpu": "1", "replicas": "1", "step": "1", "group": "0", "to": "1"}
WORKLOADS = ("sets", "deployments", "statefulsets")
STREAMS = ("/dashboard/live", *(f"/dashboard/{one}/{{namespace}}/{{name}}/log-stream" for one in WORKLOADS))


def without_rate_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of requests is too many, however fast the machine is."""
    for name in ("REQUESTS_AT_ONCE", "PLANS_AT_ONCE"):
        monkeypatch.setattr(server, name, 10**9)


def addresses(of: RunningDashboard, node: str, other: str) -> Iterator[str]:
    """Every path with every kind of parameters; `other` stands for the name of the set of the other namespace."""
    for path in of.paths:
        if path in STREAMS or path.endswith(("/static/{name}", "/logout")):
            continue
        values: dict[str, tuple[str, ...]] = {"node": (node, other), "verb": tuple(Verb)}
        for namespace, name in ((OWN, "open-model"), (OWN, other), (OTHER, other)):
            for node_name, verb in product(*(values[one] for one in ("node", "verb"))):
                made = path.format(namespace=namespace, name=name, node=node_name, verb=verb)
                queries = QUERIES.get(path, ("",))
                if "{verb}" in path:
                    given = [f"{one}={GIVEN[one]}" for one in PARAMETERS.get(Verb(verb), ()) if one in GIVEN]
                    queries = ("", f"?{given[0]}") if given else ("",)
                yield from (made + one.replace("{name}", other) for one in queries)


async def leaks(user: Visit, of: RunningDashboard, node: str) -> list[str]:
    """Addresses whose answer knows something of the other namespace."""
    found = []
    absent = "absent-model"
    asked = list(dict.fromkeys(zip(addresses(of, node, SECRET), addresses(of, node, absent), strict=True)))
    assert len(asked) > 3 * len(of.paths) / 2
    for address, alike in asked:
        for form in ("application/json", "text/html"):
            answer, same = await _text(user, address, form), await _text(user, alike, form)
            named = SECRET in address
            if (not named and SECRET in answer) or (named and answer != same.replace(absent, SECRET)):
                found.append(f"{form} {address}: {answer[:300]}")
        first = await _first_event(user, f"/dashboard/live?view={address}".replace("?", "%3F").replace("%3F", "?", 1))
        if SECRET in first and SECRET not in address:
            found.append(f"stream {address}: {first[:300]}")
    return found


async def _text(user: Visit, address: str, form: str) -> str:
    headers = {"Accept": form}
    async with user.session.get(user.base + address, headers=headers, allow_redirects=False) as answer:
        assert answer.status not in (429, 500, 502), (address, answer.status, await answer.text())
        text = await answer.text()
    if form == "application/json" and answer.status == 200 and answer.content_type == "application/json":
        text = _without_time(text)
    return "" if form == "text/html" and answer.status == 200 and SECRET not in text else f"{answer.status} {text}"


def _without_time(text: str) -> str:
    """Ages pass between two requests."""

    def cut(value: object) -> object:
        if isinstance(value, dict):
            return {key: cut(one) for key, one in value.items() if not key.endswith("Seconds")}
        return [cut(one) for one in value] if isinstance(value, list) else value

    return msgspec.json.encode(cut(msgspec.json.decode(text))).decode()


async def _first_event(user: Visit, address: str) -> str:
    """What a stream sends at once."""
    async with user.session.get(user.base + address) as answer:
        assert answer.status != 429
        async with asyncio.timeout(300):
            async for line in answer.content:
                if line.startswith((b"data:", b"{", b"<", b":")):
                    return line.decode()
    return ""
