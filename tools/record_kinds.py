"""Record what a real API server says about every mutation of every specimen.

    python -m tools.record_kinds https://127.0.0.1:6443 TOKEN [SPECIMEN...]

With names of specimens, only those are recorded anew. The server should be fresh, without controllers, and with the
default admission plugins except ServiceAccount. Nothing is kept on it: mutations are sent as dry runs.
"""

import http.client
import json
import ssl
import sys
from urllib.parse import urlsplit

from tests.cluster.apiserver.kinds.specimens import FOLDER, SPECIMENS, Door, Specimen, Verdict, cases, verdict

from kohort.objects.json_types import Json, JsonObject

ENOUGH = 20
MERGE = "application/merge-patch+json"


class Server:
    def __init__(self, address: str, token: str) -> None:
        self.host = urlsplit(address).netloc
        self.token = token
        self.connect()

    def connect(self) -> None:
        context = ssl._create_unverified_context()
        self.connection = http.client.HTTPSConnection(self.host, context=context)

    def call(
        self, method: str, path: str, body: Json = None, media: str = "application/json"
    ) -> tuple[int, JsonObject]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": media}
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = self.connection.getresponse()
            return response.status, json.loads(response.read())
        except http.client.RemoteDisconnected:
            self.connect()  # it happens: some objects are too much for it
            return 0, {}


def record(server: Server, specimen: Specimen, door: Door) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    if door == "create":
        for name, body in cases(specimen, door, {}).items():
            found[name] = verdict(*server.call("POST", f"{specimen.collection}?dryRun=All", body))
        return found
    code, stored = server.call("POST", specimen.collection, specimen.object)
    if code != 201:
        return {}
    suffix = "/status" if door == "status" else ""
    for name, body in cases(specimen, door, stored).items():
        found[name] = verdict(*server.call("PUT", f"{specimen.path}{suffix}?dryRun=All", body))
    server.call("DELETE", f"{specimen.path}?gracePeriodSeconds=0")
    server.call("PATCH", specimen.path, {"metadata": {"finalizers": None}}, MERGE)
    return found


def main() -> None:
    server = Server(*sys.argv[1:3])
    server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "d"}})
    wanted = sys.argv[3:] or [specimen.name for specimen in SPECIMENS]
    doors: tuple[Door, ...] = ("create", "update", "status")
    for door in doors:
        file = FOLDER / f"answers_{door}.json"
        answers = json.loads(file.read_text()) if sys.argv[3:] else {}
        for specimen in SPECIMENS:
            if specimen.name in wanted and (door != "status" or specimen.status):
                found = record(server, specimen, door)
                if found:
                    answers[specimen.name] = grouped(found)
        lines = [f"{json.dumps(name)}:{json.dumps(rows, separators=(',', ':'))}" for name, rows in answers.items()]
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def grouped(found: dict[str, Verdict]) -> list[JsonObject]:
    by_verdict: dict[Verdict, list[str]] = {}
    for name, said in found.items():
        if said[0]:
            by_verdict.setdefault(said, []).append(name)
    return [{"code": code, "causes": causes, "cases": some_of(names)} for (code, causes), names in by_verdict.items()]


def some_of(names: list[str]) -> list[str]:
    """Enough of the mutations that meet the same verdict, from all over the object."""
    step = max(len(names) / ENOUGH, 1)
    return [names[int(index * step)] for index in range(min(len(names), ENOUGH))]


if __name__ == "__main__":
    main()
