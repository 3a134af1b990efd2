"""What a hostile user, page or neighbour may try against the dashboard; each attack must fail."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from html.parser import HTMLParser
from urllib.parse import urlencode

import pytest
from aiohttp import ClientSession, CookieJar
from tests.dashboard.scene import Scene, Visit, dashboard, model_set, scene, visit
from tests.dashboard.test_html import PAYLOADS
from tests.dashboard.test_token_access import logged_in, place_of, posted, reader

from kohort.cli.actions.dashboard_commands import CliCommands
from kohort.dashboard import log_stream, server, sessions
from kohort.dashboard.access import Caller, User, equal_secrets
from kohort.dashboard.commands import Planned
from kohort.dashboard.log_stream import MOST_CHARACTERS, MOST_WAITING, ContainerLog, LogLine, merged_lines
from kohort.dashboard.running import RunningDashboard, running
from kohort.dashboard.server import DashboardSettings
from kohort.dashboard.sessions import COOKIE, Sessions
from kohort.dashboard.view import NoSuchPage
from kohort.inspection.rollout_plan import RolloutForecast
from kohort.kube.client import Client
from kohort.kube.http import Request, Response, Stream
from kohort.kube.pod_logs import MOST_BYTES
from kohort.kube.resources import EVENTS, LEADER_WORKER_SETS, PODS

LLM = "/dashboard/sets/default/llm"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Scene, RunningDashboard]]:
    async with scene(nodes=2) as found, dashboard(found, DashboardSettings(allow_actions=True)) as made:
        await found.create(model_set("llm", gpus=0))
        await found.ready("llm")
        yield found, made


async def raw(running: RunningDashboard, text: str) -> bytes:
    """What the server answers to these very bytes, until it closes the connection or half a second has passed."""
    reader_, writer = await asyncio.open_connection("127.0.0.1", running.port)
    try:
        writer.write(text.encode("latin-1"))
        await writer.drain()
        async with asyncio.timeout(300):
            return await reader_.read(1 << 16)
    finally:
        writer.close()


# Sessions


async def test_a_session_that_an_attacker_chose_is_not_taken(place: tuple[Scene, RunningDashboard]) -> None:
    _, running = place
    base = f"http://127.0.0.1:{running.port}"
    async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
        headers = {"Cookie": f"{COOKIE}=chosen"}
        async with browser.get(base + running.link(), headers=headers, allow_redirects=False) as answer:
            made = answer.cookies[COOKIE].value
        assert made != "chosen" and len(made) >= 43
        async with browser.get(f"{base}/dashboard/", headers={**headers, "Accept": "application/json"}) as answer:
            assert answer.status == 401


async def test_a_link_that_is_opened_twice_at_once_opens_one_session(place: tuple[Scene, RunningDashboard]) -> None:
    _, running = place
    link = f"http://127.0.0.1:{running.port}{running.link()}"
    async with ClientSession() as browser:

        async def status() -> int:
            async with browser.get(link, allow_redirects=False) as answer:
                return answer.status

        assert sorted(await asyncio.gather(*(status() for _ in range(8)))) == [303, *[403] * 7]


async def test_one_user_does_not_drive_out_the_sessions_of_others() -> None:
    async with scene(nodes=1) as found:
        kept = Sessions()
        other = kept.begin(Caller(User("bob"), found.client))
        own = [kept.begin(Caller(User("ada"), found.client)) for _ in range(sessions.MOST + 10)]
        assert kept.find(other.id) is not None
        assert sum(kept.find(one.id) is not None for one in own) == sessions.MOST_OF_USER


@pytest.mark.parametrize("given", ["", "x", "\udcff", "kohört", "secret\x00"])
def test_secrets_of_any_bytes_are_compared(given: str) -> None:
    assert not equal_secrets("a secret", given)
    assert equal_secrets("kohört", "kohört")


# Requests that are not what they seem


@pytest.mark.parametrize(
    "header",
    [f"Cookie: {COOKIE}=\xff\xfe", "X-CSRF-Token: \xff", "Authorization: Bearer \xff", "X-Kohort-Proxy-Secret: \xff"],
)
async def test_headers_of_any_bytes_are_no_fault(place: tuple[Scene, RunningDashboard], header: str) -> None:
    _, running = place
    host = f"Host: 127.0.0.1:{running.port}"
    answer = await raw(running, f"GET {LLM} HTTP/1.1\r\n{host}\r\nAccept: application/json\r\n{header}\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"401"), answer


async def test_a_token_of_any_bytes_is_refused() -> None:
    async with place_of() as found:
        host = f"Host: 127.0.0.1:{found.running.port}"
        for value in ("Bearer \xff", "Bearer " + "a" * 6000, "Bearer", "Basic eDp5"):
            text = f"GET /dashboard/ HTTP/1.1\r\n{host}\r\nAccept: application/json\r\nAuthorization: {value}\r\n\r\n"
            assert (await raw(found.running, text)).split(b" ", 2)[1] in (b"400", b"401"), value[:20]


@pytest.mark.parametrize(
    "head",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, identity",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: +5",
        "Transfer-Encoding : chunked",
    ],
)
async def test_a_request_with_two_lengths_is_refused(place: tuple[Scene, RunningDashboard], head: str) -> None:
    """A proxy in front could see another end of the request, and pass on the rest as that of another user."""
    _, running = place
    first = f"POST /dashboard/login HTTP/1.1\r\nHost: localhost\r\n{head}\r\n\r\n0\r\n\r\n"
    answer = await raw(running, f"{first}GET /dashboard/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400")), answer
    assert b"\r\n\r\nok\n" not in answer


@pytest.mark.parametrize(
    "path",
    [
        "/dashboard/static/..%2f..%2fserver.py",
        "/dashboard/static/%2e%2e/server.py",
        "/dashboard/static/../server.py",
        "/dashboard/static/style.css%00.png",
        "/dashboard/static//etc/passwd",
    ],
)
async def test_only_files_that_are_served_are_read(place: tuple[Scene, RunningDashboard], path: str) -> None:
    _, running = place
    answer = await raw(running, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n")
    assert answer.split(b" ", 2)[1] in (b"400", b"401", b"404"), answer
    assert b"import" not in answer and b"root:" not in answer


@pytest.mark.parametrize(
    "path", ["//evil.example.com/dashboard/", "/dashboard//evil.example.com", "/\\evil.example.com", "/dashboard"]
)
async def test_nobody_is_led_to_another_site(place: tuple[Scene, RunningDashboard], path: str) -> None:
    _, running = place
    answer = await raw(running, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    found = re.search(rb"(?i)\r\nlocation: ([^\r]*)", answer)
    assert found is None or found[1] in (b"/dashboard/", b"/dashboard/login"), answer


async def test_no_answer_is_split(place: tuple[Scene, RunningDashboard]) -> None:
    _, running = place
    async with visit(running) as user:
        cookie = "; ".join(f"{one.key}={one.value}" for one in user.session.cookie_jar)
        for path in (
            "/dashboard/sets/default/a%0d%0aSet-Cookie:%20x=1",
            "/dashboard/?state=a%0d%0aSet-Cookie:%20x=1",
            f"{LLM}/actions/approve?step=%0d%0aSet-Cookie:%20x=1",
        ):
            text = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nAccept: application/json\r\n\r\n"
            head = (await raw(running, text)).partition(b"\r\n\r\n")[0]
            assert b"\r\nset-cookie" not in head.lower() and head.split(b" ", 2)[1] in (b"400", b"404"), head


async def test_every_answer_forbids_frames_and_scripts(place: tuple[Scene, RunningDashboard]) -> None:
    _, running = place
    async with visit(running) as user:
        for path, headers in (
            ("/dashboard/", {}),
            ("/dashboard/nowhere", {}),
            ("/dashboard/login?key=x", {}),
            ("/dashboard/live?view=/dashboard/", {}),
            (f"{LLM}/status.svg", {}),
            ("/dashboard/healthz", {}),
            ("/elsewhere", {}),
            ("/dashboard/", {"Host": "evil.example.com"}),
            ("/dashboard/?page=x", {"Accept": "application/json"}),
        ):
            async with user.session.get(user.base + path, headers=headers) as answer:
                assert answer.headers["X-Frame-Options"] == "DENY", path
                assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], path
                assert answer.headers["X-Content-Type-Options"] == "nosniff", path


# Text of objects


async def test_no_text_of_an_object_becomes_html() -> None:
    """Names of images, labels, annotations, events, metrics of analyses, causes of changes."""
    async with (
        scene(nodes=4) as found,
        dashboard(found, DashboardSettings(allow_actions=True)) as made,
        visit(made) as user,
    ):
        for number, text in enumerate(PAYLOADS):
            await found.create(
                model_set(f"llm-{number}", image=f"registry.example.com/{text}", gpus=0, waiting=text)
                .but("metadata.annotations", {"kubernetes.io/change-cause": text, "note": text})
                .but("spec.leaderWorkerTemplate.workerTemplate.spec.containers.0.env", [{"name": "A", "value": text}])
            )
            about = {"kind": "LeaderWorkerSet", "name": f"llm-{number}", "namespace": "default"}
            for kind in ("Normal", "Warning"):
                event = {"metadata": {"name": f"e-{number}-{kind.lower()}"}, "involvedObject": about, "message": text}
                await found.client.create(EVENTS, {**event, "reason": text, "type": kind}, "default")
        await user.until("/dashboard/", lambda page: bool(page["total"] == len(PAYLOADS)))
        for number, text in enumerate(PAYLOADS):
            base = f"/dashboard/sets/default/llm-{number}"
            for path in ("", "/history", "/events", "/logs", "/resize", "/failures", "/actions/restart"):
                shown = await user.text(base + path)
                assert Found.of(shown) == [], (path, text)


class Found(HTMLParser):
    """Elements and attributes that no page of the dashboard has."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    @classmethod
    def of(cls, text: str) -> list[str]:
        parser = cls()
        parser.feed(text)
        return parser.problems

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("img", "iframe", "object", "embed", "base") or (tag == "script" and "src" not in given):
            self.problems.append(tag)
        self.problems += [name for name in given if name.startswith("on") or name in ("style", "srcdoc")]
        for name in ("href", "src", "action"):
            value = given.get(name) or "/"
            if not value.startswith(("/dashboard", "?", "#", "/")) or value.startswith("//"):
                self.problems.append(f"{name}={value}")


def test_the_search_for_scripts_finds_them() -> None:
    for text in PAYLOADS[:2]:
        assert Found.of(f"<p>{text}</p>") != [] or Found.of(f'<p title="{text}"></p>') != []
    assert Found.of("<a href='javascript:alert(1)'>x</a>") == ["href=javascript:alert(1)"]


# Users who take more than their share


class FloodedLogs:
    """An API server whose pods log a line that never ends, and one short line after it."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.sent = 0

    async def send(self, request: Request) -> Response:
        raise AssertionError("only logs are read")

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        yield self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(64):
            self.sent += MOST_BYTES
            yield b"x" * MOST_BYTES
        yield b"\nend\n"

    async def close(self) -> None:
        pass


def until_taken(*pods: str) -> Callable[[], Awaitable[list[ContainerLog]]]:
    """These pods, at the first two looks; then the workload is gone."""
    looks = iter(range(2))

    async def sources() -> list[ContainerLog]:
        if next(looks, None) is None:
            raise NoSuchPage("gone")
        return [ContainerLog(one) for one in pods]

    return sources


async def read_all(lines: AsyncIterator[list[LogLine]]) -> list[LogLine]:
    found: list[LogLine] = []
    with suppress(NoSuchPage):
        async for batch in lines:
            found += batch
    return found


async def test_a_log_line_without_an_end_comes_in_pieces_that_are_cut() -> None:
    client = Client(FloodedLogs())
    found = await read_all(merged_lines(client, "default", until_taken("llm-0"), ""))
    assert len(found) >= 32
    assert max(len(one.text) for one in found) <= MOST_CHARACTERS + 10
    assert found[-1].text == "end"


class StampedLogs(FloodedLogs):
    """Two pods that wrote in turns; each log comes as a whole."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        assert ("timestamps", "true") in request.query
        yield StampedLog(1 if "llm-1" in request.path else 0)


class StampedLog(FloodedLogs):
    def __init__(self, first: int) -> None:
        super().__init__()
        self._first = first

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for second in range(self._first, 6, 2):
            yield f"2026-01-01T00:00:0{second}Z line {second}\n".encode()


async def test_what_pods_wrote_before_is_merged_by_time() -> None:
    batch = await read_all(merged_lines(Client(StampedLogs()), "default", until_taken("llm-0", "llm-1"), ""))
    assert [one.text for one in batch] == [f"line {second}" for second in range(6)]
    assert [one.at for one in batch] == [f"2026-01-01T00:00:0{second}" for second in range(6)]


class NumberedLogs(FloodedLogs):
    """Each request for a log gets one line, which says how many there were."""

    asked = 0

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        self.asked += 1
        yield OneLine(self.asked)


class OneLine(FloodedLogs):
    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield f"log {self._number}\n".encode()


async def test_logs_of_containers_that_start_later_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart, a recreated pod, a pod of a group that was added; each log once."""
    monkeypatch.setattr(log_stream, "LOOK_SECONDS", 0.01)
    first, again, added = ContainerLog("llm-0", "a"), ContainerLog("llm-0", "b"), ContainerLog("llm-1", "c")
    looks = iter([[first], [first], [again], [again, added], [again, added]])

    async def sources() -> list[ContainerLog]:
        found = next(looks, None)
        if found is None:
            raise NoSuchPage("gone")
        return found

    lines = await read_all(merged_lines(Client(NumberedLogs()), "default", sources, ""))
    assert [(one.pod, one.text, one.tint) for one in lines] == [
        ("llm-0", "log 1", 0),
        ("llm-0", "log 2", 0),
        ("llm-1", "log 3", 1),
    ]


class LogsOfOneStart(FloodedLogs):
    """However often it is asked for: the same lines."""

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        yield StampedLog(0)


async def test_a_log_that_was_read_before_its_start_was_known_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_stream, "LOOK_SECONDS", 0.01)
    looks = iter([[ContainerLog("llm-0")], [ContainerLog("llm-0", "a")], [ContainerLog("llm-0", "a")]])

    async def sources() -> list[ContainerLog]:
        found = next(looks, None)
        if found is None:
            raise NoSuchPage("gone")
        return found

    lines = await read_all(merged_lines(Client(LogsOfOneStart()), "default", sources, ""))
    assert [one.text for one in lines] == ["line 0", "line 2", "line 4"]


async def test_logs_wait_for_a_reader_who_is_slow() -> None:
    """What is kept for the reader is bounded, whatever pods write."""
    pod = FloodedShortLines()
    lines = merged_lines(Client(pod), "default", until_taken("llm-0"), "")
    await anext(lines)
    await asyncio.sleep(5.0)  # of a virtual clock: the reader does nothing
    assert pod.lines <= 3 * MOST_WAITING
    await lines.aclose()


class FloodedShortLines(FloodedLogs):
    lines = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.lines < 100 * MOST_WAITING:
            self.lines += 100
            yield b"line\n" * 100
            await asyncio.sleep(0)


async def test_streams_of_one_user_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with a token in a header, where each request stands for itself."""
    monkeypatch.setattr(server, "MOST_STREAMS_OF_USER", 3)
    async with place_of() as place:
        base = f"http://127.0.0.1:{place.running.port}"
        address = f"{base}/dashboard/live?view=/dashboard/"
        own = {"Authorization": f"Bearer {place.token}"}
        other = {"Authorization": f"Bearer {await reader(place.scene, 'west')}"}
        async with ClientSession() as browser:
            answers = [await browser.get(address, headers=own) for _ in range(4)]
            assert [one.status for one in answers] == [200, 200, 200, 503]
            async with browser.get(address, headers=other) as answer:
                assert answer.status == 200
            answers[0].close()
            async with asyncio.timeout(300):
                while True:
                    async with browser.get(address, headers=own) as answer:
                        if answer.status == 200:
                            break


async def test_a_connection_without_a_request_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly its head comes; a browser that has a page open keeps its connection."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 1.0)
    async with scene(nodes=1) as found, dashboard(found) as running, visit(running) as user:
        await user.json("/dashboard/")
        live = await user.session.get(f"{user.base}/dashboard/live?view=/dashboard/")
        for head in ("", "GET /dashboard/ HTTP/1.1\r\nHost: "):
            reader_, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(head.encode())
            async with asyncio.timeout(300):
                with suppress(ConnectionError):
                    assert await reader_.read() == b""
            writer.close()
        assert running.stream_load().streams == 1
        live.close()


async def test_a_form_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.5)
    async with place_of() as found:
        kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000"
        head = f"POST /dashboard/login HTTP/1.1\r\nHost: 127.0.0.1:{found.running.port}\r\n{kind}\r\n\r\ntoken="
        assert (await raw(found.running, head)).split(b" ", 2)[1] == b"408"


async def test_a_form_that_is_too_large_is_refused() -> None:
    async with place_of() as found, ClientSession() as browser:
        base = f"http://127.0.0.1:{found.running.port}"
        async with browser.post(f"{base}/dashboard/login", data={"token": "x" * (2 << 20)}) as answer:
            assert answer.status == 413
            assert answer.headers["X-Frame-Options"] == "DENY"


async def test_requests_of_one_user_leave_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both come from one address, as behind an Ingress."""
    monkeypatch.setattr(server, "REQUESTS_PER_SECOND", 0.001)
    monkeypatch.setattr(server, "REQUESTS_AT_ONCE", 20)
    async with place_of() as place, logged_in(place, place.token) as ada:
        bob_token = await reader(place.scene, "west")
        async with logged_in(place, bob_token) as bob:
            seen = [await status_of(ada, "/dashboard/") for _ in range(25)]
            assert (seen[0], seen[-1]) == (200, 429)
            assert await status_of(bob, "/dashboard/") == 200


async def status_of(user: Visit, path: str) -> int:
    async with user.session.get(user.base + path) as answer:
        return answer.status


async def test_plans_have_a_limit_of_their_own(
    monkeypatch: pytest.MonkeyPatch, place: tuple[Scene, RunningDashboard]
) -> None:
    found, _ = place
    monkeypatch.setattr(server, "PLANS_PER_SECOND", 0.001)
    monkeypatch.setattr(server, "PLANS_AT_ONCE", 2)
    async with dashboard(found, DashboardSettings(allow_actions=True)) as made, visit(made) as user:
        seen = [await status_of(user, f"{LLM}/actions/restart") for _ in range(4)]
        assert seen == [200, 200, 429, 429]
        assert await status_of(user, LLM) == 200


class CountedPlans(CliCommands):
    """Knows how many plans were made at the same time."""

    def __init__(self) -> None:
        self.now = self.most = self.made = 0

    async def plan(
        self, client: Client, namespace: str, manifest: str
    ) -> tuple[Sequence[Planned], Sequence[RolloutForecast]]:
        self.now += 1
        self.most, self.made = max(self.most, self.now), self.made + 1
        try:
            return await super().plan(client, namespace, manifest)
        finally:
            self.now -= 1


async def test_plans_of_one_user_are_made_one_after_the_other(place: tuple[Scene, RunningDashboard]) -> None:
    """Each holds a copy of the cluster: at once they cost the memory of all users."""
    found, _ = place
    commands = CountedPlans()
    client = Client(found.cluster.transport())
    async with (
        running(client, ("127.0.0.1", 0), DashboardSettings(), commands, namespace="default") as made,
        visit(made) as user,
    ):
        manifest = (await user.json("/dashboard/what-if?set=default/llm"))["manifest"]
        csrf = re.search(r'name="csrf" value="([^"]+)"', await user.text("/dashboard/"))
        assert csrf is not None
        body = {"csrf": csrf[1], "manifest": manifest}

        async def one() -> int:
            async with user.session.post(user.base + "/dashboard/what-if", data=body) as answer:
                return answer.status

        assert await asyncio.gather(*(one() for _ in range(6))) == [200] * 6
    assert (commands.made, commands.most) == (6, 1)


@pytest.mark.parametrize("part", ["/actions/restart", "/%61ctions/restart", "/actions/scale?replicas=9"])
async def test_a_preview_is_not_made_again_with_every_change(place: tuple[Scene, RunningDashboard], part: str) -> None:
    """It costs a plan, which the limit of plans would not see."""
    _, made = place
    async with visit(made) as user:
        query = urlencode({"view": LLM + part})
        assert await status_of(user, f"/dashboard/live?{query}") == 400


HEAD = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: llm}\n"


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (HEAD + "spec: " + "[" * 90_000, "nested more than 100 levels"),
        (HEAD + "spec: {replicas: 1000000000, leaderWorkerTemplate: {size: 8}}", "foresees sets of up to 4000 pods"),
        (HEAD + "spec: " + "x" * 200_000, "at most 200000 are allowed"),
        (HEAD + "spec: {replicas: " + ":".join(["59"] * 60_000) + "}", "a number has more than 1000 characters"),
        (
            "---\n".join([HEAD + "spec: {replicas: 100, leaderWorkerTemplate: {size: 8}}\n"] * 6),
            "foresees sets of up to 4000 pods together",
        ),
    ],
)
async def test_manifests_that_cost_too_much_are_refused(
    place: tuple[Scene, RunningDashboard], manifest: str, reason: str
) -> None:
    found, running = place
    async with visit(running) as user:
        page = await user.text("/dashboard/")
        csrf = re.search(r'name="csrf" value="([^"]+)"', page)
        assert csrf is not None
        body = {"csrf": csrf[1], "manifest": manifest}
        headers = {"Accept": "application/json"}
        async with user.session.post(user.base + "/dashboard/what-if", data=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.status in (200, 400)
        assert reason in text
        assert (found.cluster.find(LEADER_WORKER_SETS, "llm", "default") or {})["spec"]["replicas"] == 2


async def test_the_preview_of_a_huge_scale_is_quick(place: tuple[Scene, RunningDashboard]) -> None:
    found, running = place
    async with visit(running) as user:
        page = await user.json(f"{LLM}/actions/scale?replicas=50000")
        assert "foresees sets of up to 4000 pods" in page["forecast"][0], page
        assert len(found.cluster.objects(PODS)) == 4


async def test_an_action_of_a_session_cannot_be_asked_for_by_another_one() -> None:
    async with place_of() as place, logged_in(place, place.token) as ada, logged_in(place, place.token) as again:
        csrf = re.search(r'name="csrf" value="([^"]+)"', await ada.text("/dashboard/"))
        assert csrf is not None
        for path in ("/dashboard/sets/east/open-model/actions/restart", "/dashboard/what-if", "/dashboard/logout"):
            async with again.session.post(again.base + path, data={"csrf": csrf[1]}) as answer:
                assert answer.status == 403
        await posted(again, "/dashboard/what-if", {"manifest": ""})
