"""Send the requests of a file of recorded answers to a kube-apiserver and write its answers into the file.

    python -m tools.schemas.record --server https://127.0.0.1:6443 --token T tests/.../answers.json

The file is `{"definitions": [CRD, ...], "cases": [{"name", "path", "content_type"?, "body", ...answer}, ...]}`. The
answer is `code`, `message`, `causes` and `warnings`; nothing else in a case is touched.
"""

import argparse
import json
import ssl
import time
import urllib.error
import urllib.request

from kohort.objects.json_types import JsonObject

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANSWER = ("code", "message", "causes", "warnings")


class Server:
    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.tls = ssl._create_unverified_context()

    def ask(
        self, method: str, path: str, body: bytes | None = None, content_type: str = "application/json"
    ) -> tuple[int, JsonObject, list[str]]:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self.tls) as answer:
                return answer.status, json.loads(answer.read()), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else {"message": text.decode()}, []


def install(server: Server, definition: JsonObject) -> None:
    server.ask("POST", CRDS, json.dumps(definition).encode())
    spec = definition["spec"]
    path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
    for _ in range(100):
        if server.ask("GET", path)[0] == 200:
            return
        time.sleep(0.1)
    raise SystemExit(f"{path} is not served")


def record(server: Server, case: JsonObject) -> None:
    code, answer, warnings = server.ask(
        "POST", case["path"], case["body"].encode("latin-1"), case.get("content_type", "application/json")
    )
    for key in ANSWER:
        case.pop(key, None)
    case["code"] = code
    if warnings:
        case["warnings"] = [text.removeprefix('299 - "').removesuffix('"').replace('\\"', '"') for text in warnings]
    if code >= 400:
        case["message"] = answer["message"]
        causes = (answer.get("details") or {}).get("causes")
        if causes:
            case["causes"] = [[cause["reason"], cause["field"], cause["message"]] for cause in causes]


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--server", required=True)
    arguments.add_argument("--token", required=True)
    arguments.add_argument("file")
    chosen = arguments.parse_args()
    server = Server(chosen.server, chosen.token)
    with open(chosen.file) as source:
        document = json.load(source)
    for definition in document.get("definitions", []):
        install(server, definition)
    for case in document["cases"]:
        record(server, case)
    with open(chosen.file, "w") as target:
        json.dump(document, target, indent=1, sort_keys=True)
        target.write("\n")


if __name__ == "__main__":
    main()
