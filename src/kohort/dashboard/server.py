"""The web server of the dashboard: routes, sessions, headers and limits.

What every request passes, in this order:

| check | else |
|---|---|
| the Host header names this server (DNS rebinding: a foreign name that resolves to a loopback address) | 421 |
| a session, or a bearer token in a cluster | 401, or the login page |
| the user has not sent too many requests; without a user, the address has not | 429 |
| a write: an Origin of this server, and the token of the session | 403 |

Limits are of users and not of addresses, because behind an Ingress all users share one address. Plans and previews cost
more: they have a limit of their own, those of a user are made one after the other, and only when a page is opened,
not again whenever something changes.

Responses allow the browser no inline script or style, no frame, no other host (Content-Security-Policy), and are not
kept in its cache.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from importlib import resources
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from weakref import WeakValueDictionary

import msgspec
from aiohttp import web

from kohort.dashboard.access import Caller, CertificateUsers, ProxyUsers, TokenReviewer, User
from kohort.dashboard.badge import svg
from kohort.dashboard.commands import ActionRefused
from kohort.dashboard.html import ROOT, Html, path, tag
from kohort.dashboard.live import Broadcast, page_digest, updates_of
from kohort.dashboard.log_stream import ContainerLog, merged_lines
from kohort.dashboard.pages.layout import Visitor, message_page, page
from kohort.dashboard.sessions import COOKIE, OneTimeLink, Session, Sessions
from kohort.dashboard.sessions import MOST as MOST_SESSIONS
from kohort.dashboard.view import BadParameter, NoSuchPage, NoSuchWorkload, View
from kohort.dashboard.views import PATHS, Views
from kohort.dashboard.workload_kinds import BY_PATH, KINDS, WorkloadKind
from kohort.kube.errors import ApiError
from kohort.kube.events import EventRecorder, reference_to
from kohort.kube.log import Log
from kohort.kube.ratelimit import TokenBucket
from kohort.objects.meta import PartialObject

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_STATIC: Final[Mapping[str, str]] = {
    "style.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
REQUESTS_PER_SECOND, REQUESTS_AT_ONCE = 10.0, 200
"""Of each user. A view of 1,000 sets costs 17 ms of a processor (bench/dashboard.py), so ten a second leave five sixths
of it to others. A person needs one or two; the burst is for a browser that opens all its pages again, at most 48 with
a stream each, or for a document with a hundred badges."""
ANONYMOUS_PER_SECOND, ANONYMOUS_AT_ONCE = 50.0, 200
"""Of each address, without a user: static files and redirects, which cost little. Behind an Ingress, all users share
one."""
LOGINS_PER_SECOND, LOGINS_AT_ONCE = 0.5, 20
PLANS_PER_SECOND, PLANS_AT_ONCE = 1.0, 20
MOST_STREAMS, MOST_STREAMS_OF_USER = 512, 48
PIECE_BYTES: Final = 64 << 10
"""How much of an event is handed to the connection of a browser at once."""
TAKE_SECONDS: Final = 30.0
"""In which a browser must take a piece; the connection ends otherwise, and what waits for it is dropped."""
BODY_BYTES: Final = 1 << 20
HEAD_SECONDS: Final = 20.0
"""In which the first request of a connection must have begun; connections cost file descriptors."""
BODY_SECONDS: Final = 30.0
"""In which the body of a request must have come."""
_ADDRESSES: Final = 4096
_ACTIONS: Final = "/actions/"

_log = Log(module="kohort.dashboard")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
SessionHandler = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]


class Limits:
    """Requests of each address or user; the table of them is bounded."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._buckets: dict[str | User, TokenBucket] = {}

    def allow(self, source: str | User) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            if len(self._buckets) >= _ADDRESSES:
                self._buckets.clear()
            bucket = self._buckets[source] = TokenBucket(self._rate, self._burst)
        return bucket.try_take()


class DashboardSettings(msgspec.Struct, frozen=True):
    hosts: tuple[str, ...] = LOOPBACK
    """Names, without ports, by which browsers reach the server."""
    allow_actions: bool = False


class LinkLogin:
    """Sessions begin with a one-time link; all act as the user who started the dashboard."""

    def __init__(self, caller: Caller, used: Callable[[], None]) -> None:
        """`used` is called when a link was used, and the next one is `link`."""
        self.link = OneTimeLink()
        self._caller = caller
        self._used = used

    def caller(self, key: str) -> Caller | None:
        if not self.link.use(key):
            return None
        self._used()
        return self._caller


Login = LinkLogin | TokenReviewer | ProxyUsers | CertificateUsers


class Dashboard:
    def __init__(
        self,
        views: Views,
        broadcast: Broadcast,
        login: Login,
        settings: DashboardSettings,
        recorder: EventRecorder,
        certificates: CertificateUsers | None = None,
    ) -> None:
        """With `certificates`, users may show a client certificate instead of logging in."""
        self._certificates = login if isinstance(login, CertificateUsers) else certificates
        self._recorder = recorder
        self._views = views
        self._broadcast = broadcast
        self._login = login
        self._settings = settings
        self._sessions = Sessions()
        self._of_users: dict[User, Session] = {}
        self._streams: set[EventStream] = set()
        self._heard: set[web.RequestHandler] = set()
        """Connections on which a request has begun."""
        self._open: set[asyncio.Task[object]] = set()
        """Requests whose answer is a stream: they end only with the browser, or the server."""
        self._streams_of: Counter[User] = Counter()
        self._requests = Limits(REQUESTS_PER_SECOND, REQUESTS_AT_ONCE)
        self._anonymous = Limits(ANONYMOUS_PER_SECOND, ANONYMOUS_AT_ONCE)
        self._plans = Limits(PLANS_PER_SECOND, PLANS_AT_ONCE)
        self._turns: WeakValueDictionary[User, asyncio.Lock] = WeakValueDictionary()
        self._logins = Limits(LOGINS_PER_SECOND, LOGINS_AT_ONCE)
        self._static = {name: _read(name) for name in _STATIC}
        self._version = hashlib.sha256(b"".join(self._static.values())).hexdigest()[:12]

    def application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=BODY_BYTES)
        application.on_shutdown.append(self._end_streams)
        routes = application.router
        routes.add_get("/", self._for_anyone(self._to_root))
        routes.add_get(ROOT, self._for_anyone(self._to_root))
        routes.add_get(f"{ROOT}/healthz", self._for_anyone(self._health))
        routes.add_get(f"{ROOT}/login", self._for_anyone(self._login_page))
        routes.add_post(f"{ROOT}/login", self._for_anyone(self._login_with_token))
        routes.add_post(f"{ROOT}/logout", self._for_users(self._logout))
        routes.add_get(f"{ROOT}/static/{{name}}", self._for_anyone(self._static_file))
        for kind in KINDS.values():
            workload = f"{ROOT}/{kind.path}/{{namespace}}/{{name}}"
            routes.add_get(f"{workload}/status.svg", self._for_users(partial(self._badge, kind)))
            routes.add_get(f"{workload}/log-stream", self._for_users(partial(self._logs, kind)))
            routes.add_post(f"{workload}/actions/{{verb}}", self._for_users(partial(self._act, kind)))
        routes.add_post(f"{ROOT}/what-if", self._for_users(self._what_if))
        routes.add_get(f"{ROOT}/live", self._for_users(self._live))
        routes.add_get(f"{ROOT}/{{path:.*}}", self._for_users(self._page))
        return application

    @staticmethod
    def paths(application: web.Application) -> list[str]:
        """All that the server answers for, with {parameters}; views instead of the route that finds them."""
        routed = [one.canonical for one in application.router.resources() if "{path}" not in one.canonical]
        return [*routed, *(f"{ROOT}/{one}" for one in PATHS)]

    def stream_load(self) -> "StreamLoad":
        return StreamLoad(len(self._streams), sum(one.queued_bytes for one in self._streams))

    async def _end_streams(self, application: web.Application) -> None:
        """A stop must not wait for browsers that are open."""
        for task in [*self._open]:
            task.cancel()

    async def close_silent(self, server: web.Server) -> None:
        """Until cancelled: ends connections that have not sent a request in time. aiohttp itself ends those that are
        silent after one."""
        clock = asyncio.get_running_loop().time
        since: dict[web.RequestHandler, float] = {}
        while True:
            await asyncio.sleep(HEAD_SECONDS / 4)
            self._heard.intersection_update(server.connections)
            since = {one: since.get(one, clock()) for one in server.connections if one not in self._heard}
            for connection, first in since.items():
                if clock() - first > HEAD_SECONDS and connection.transport is not None:
                    connection.transport.abort()

    # What every request passes

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self._heard.add(request.protocol)
        try:
            if not self._is_own_host(request.host):
                response: web.StreamResponse = self._message(
                    421, "Unknown host", f"This server does not answer for {request.host!r}; see --allowed-host."
                )
            else:
                response = await handler(request)
        except web.HTTPException as problem:
            response = self._error(request, problem.status, problem.reason)
        except ApiError as problem:
            _log.warning("request failed", path=request.path, problem=problem.message)
            response = self._error(request, 502, f"the API server answered: {problem.message}")
        except ConnectionError:
            raise  # The browser has left.
        except Exception:  # A fault of the dashboard: its answer has the same headers as every other.
            _log.exception("request failed", path=request.path)
            response = self._error(request, 500, "the dashboard has failed here; its log says why")
        for name, value in SECURITY_HEADERS.items():
            if not response.prepared:
                response.headers.setdefault(name, value)
        return response

    def _is_own_host(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.lower() in self._settings.hosts

    def _for_anyone(self, handler: Handler) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            self._check_rate(request, None)
            return await handler(request)

        return handle

    def _check_rate(self, request: web.Request, session: Session | None) -> None:
        allowed = (
            self._anonymous.allow(request.remote or "")
            if session is None
            else self._requests.allow(session.caller.user)
        )
        if not allowed:
            raise web.HTTPTooManyRequests(reason="too many requests: wait a moment and try again")

    @asynccontextmanager
    async def _plan(self, session: Session) -> AsyncIterator[None]:
        """What is done inside plays the future of sets through: for each user one after the other."""
        user = session.caller.user
        if not self._plans.allow(user):
            raise web.HTTPTooManyRequests(reason="too many plans at once: wait a moment and try again")
        turn = self._turns.get(user)
        if turn is None:
            turn = self._turns[user] = asyncio.Lock()
        async with turn:
            yield

    def _for_users(self, handler: SessionHandler) -> Handler:
        """The handler for requests that belong to a session."""

        async def handle(request: web.Request) -> web.StreamResponse:
            session = await self._session(request)
            self._check_rate(request, session)
            if session is None:
                return self._without_session(request)
            with session.caller.use.request():
                if request.method not in ("GET", "HEAD"):
                    await self._check_write(request, session)
                try:
                    return await handler(request, session)
                except web.HTTPException as problem:
                    lost = isinstance(problem.__cause__, NoSuchWorkload)
                    return self._error(
                        request, problem.status, problem.reason, sees_nodes=session.sees_nodes, lost=lost
                    )

        return handle

    def _without_session(self, request: web.Request) -> web.StreamResponse:
        """A browser that follows a link from another site does not send the cookie (SameSite=Strict): this site opens
        the page once more. After a login with a token, the user is where the link led."""
        if not _wants_page(request):
            raise web.HTTPUnauthorized(reason="log in first")
        reads = request.method in ("GET", "HEAD")
        if reads and request.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            link = tag("p", tag("a", "Open it", href=request.path_qs))
            answer = self._html(message_page("One moment", "The page opens.", self._version, link), 200)
            answer.headers["Refresh"] = f"0; url={request.rel_url.raw_path_qs}"
            return answer
        asks = isinstance(self._login, TokenReviewer) and reads and request.path != f"{ROOT}/"
        query = f"?{urlencode({'to': request.rel_url.raw_path_qs})}" if asks else ""
        return _redirect(f"{ROOT}/login{query}")

    async def _session(self, request: web.Request) -> Session | None:
        if self._certificates is not None:
            connection = request.get_extra_info("ssl_object")
            user = self._certificates.user(request.get_extra_info("peercert"), connection)
            if user is not None:
                return self._session_of(await self._certificates.caller(user), self._certificates.csrf(user))
        if isinstance(self._login, CertificateUsers):
            return None
        if isinstance(self._login, ProxyUsers):
            user = self._login.user(request.headers)
            return self._session_of(await self._login.caller(user), self._login.csrf(user)) if user else None
        session = self._sessions.find(request.cookies.get(COOKIE, ""))
        if isinstance(self._login, LinkLogin):
            return session
        if session is not None:
            caller = await self._login.caller(session.token)
            if caller is not None:
                session.caller = caller
                return session
            self._sessions.end(session)
            return None
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        if not self._login.knows(token.strip()) and not self._logins.allow(request.remote or ""):
            raise web.HTTPTooManyRequests()
        caller = await self._login.caller(token.strip())
        return Session("", "", caller, token.strip()) if caller is not None else None

    def _session_of(self, caller: Caller, csrf: str) -> Session:
        """Of a user whom a proxy or a certificate names with each request: without a cookie."""
        known = self._of_users.pop(caller.user, None) or Session(caller.user.name, csrf, caller)
        known.caller = caller
        while len(self._of_users) >= MOST_SESSIONS:
            del self._of_users[next(iter(self._of_users))]
        self._of_users[caller.user] = known  # The last one: the first is that which was idle for longest.
        return known

    async def _check_write(self, request: web.Request, session: Session) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(reason="the request comes from another site")
        if not session.id:
            return  # A bearer token in a header is never sent by a browser on its own.
        given = request.headers.get("X-CSRF-Token") or str((await _form(request)).get("csrf", ""))
        if not session.accepts(given):
            raise web.HTTPForbidden(reason="the form has expired: load the page again")

    # Logging in and out

    async def _login_page(self, request: web.Request) -> web.StreamResponse:
        if isinstance(self._login, LinkLogin):
            key = request.query.get("key", "")
            if not key:
                text = (
                    "Open the link that kohort dashboard has printed; for a cluster of kohort up, kubectl get --raw "
                    "/dashboard prints one. Each link works once."
                )
                return self._message(401, "Log in", text)
            if not self._logins.allow(request.remote or ""):
                raise web.HTTPTooManyRequests()
            caller = self._login.caller(key)
            if caller is None:
                text = "This link was used already, or is of another start. The terminal shows the one that works now."
                return self._message(403, "Link not valid", text)
            return self._begin(request, caller)
        if isinstance(self._login, ProxyUsers):
            return self._message(401, "Log in", "Open the dashboard through the proxy that signs users in.")
        if isinstance(self._login, CertificateUsers):
            return self._message(401, "Log in", _CERTIFICATE_TEXT)
        form = _token_form(_own_page(request.query.get("to", "")))
        return self._html(message_page("Log in", _TOKEN_TEXT, self._version, form), 200)

    async def _login_with_token(self, request: web.Request) -> web.StreamResponse:
        if not isinstance(self._login, TokenReviewer):
            raise web.HTTPNotFound(reason="this dashboard takes no tokens")
        if not self._logins.allow(request.remote or ""):
            raise web.HTTPTooManyRequests()
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.host:
            raise web.HTTPForbidden(reason="the request comes from another site")
        given = await _form(request)
        token, to = str(given.get("token", "")).strip(), _own_page(str(given.get("to", "")))
        caller = await self._login.caller(token) if token else None
        if caller is None:
            form = _token_form(to)
            text = "The API server does not accept this token. Make another one and try again."
            return self._html(message_page("Log in", text, self._version, form), 401)
        return self._begin(request, caller, token, to)

    def _begin(self, request: web.Request, caller: Caller, token: str = "", to: str = f"{ROOT}/") -> web.StreamResponse:
        """Of another user, too: the session that this browser had ends."""
        former = self._sessions.find(request.cookies.get(COOKIE, ""))
        if former is not None:
            self._sessions.end(former)
        session = self._sessions.begin(caller, token)
        response = _redirect(to)
        response.set_cookie(COOKIE, session.id, path=ROOT, httponly=True, secure=True, samesite="Strict")
        return response

    async def _logout(self, request: web.Request, session: Session) -> web.StreamResponse:
        self._sessions.end(session)
        response = _redirect(f"{ROOT}/login")
        response.del_cookie(COOKIE, path=ROOT, httponly=True, secure=True, samesite="Strict")
        return response

    # Pages

    async def _to_root(self, request: web.Request) -> web.StreamResponse:
        return _redirect(f"{ROOT}/")

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _static_file(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _STATIC:
            raise web.HTTPNotFound(reason=f"there is no file {name}")
        headers = {"Cache-Control": "public, max-age=31536000, immutable" if "v" in request.query else "no-cache"}
        return web.Response(body=self._static[name], content_type=_STATIC[name], charset="utf-8", headers=headers)

    async def _page(self, request: web.Request, session: Session) -> web.StreamResponse:
        async with self._plan(session) if _ACTIONS in request.path else nullcontext():
            with _http_errors():
                view = await self._view(session, request.rel_url.raw_path, request.query)
        return await self._shown(request, session, view)

    async def _shown(self, request: web.Request, session: Session, view: View) -> web.Response:
        if not _wants_page(request):
            return web.Response(body=msgspec.json.encode(view.model), content_type="application/json")
        notice, session.notice = session.notice, ""
        logs_out = session.id in self._sessions
        session.sees_nodes = await self._views.sees_nodes(session.caller)
        visitor = Visitor(
            *(session.caller.user.name, session.csrf, self._settings.allow_actions, notice, logs_out),
            sees_nodes=session.sees_nodes,
        )
        return self._html(page(view, visitor, request.path_qs, page_digest(view), self._version), 200)

    async def _act(self, kind: WorkloadKind, request: web.Request, session: Session) -> web.StreamResponse:
        namespace, name, verb = (request.match_info[one] for one in ("namespace", "name", "verb"))
        given = {key: str(value) for key, value in (await _form(request)).items()}
        async with self._plan(session):
            with _http_errors():
                done = await self._views.act(session.caller, kind, namespace, name, verb, given)
        about = reference_to(kind.resource, PartialObject(metadata=done.subject.metadata))
        user = session.caller.user.name or "a user without a name"
        message = f"{user} ran {done.command} on the dashboard"
        self._recorder.event(about, "Normal", f"Dashboard{verb.capitalize()}", message, action=verb.capitalize())
        _log.warning("dashboard action", user=user, command=done.command)
        if not _wants_page(request):
            body = {"command": done.command, "message": done.words}
            return web.Response(body=msgspec.json.encode(body), content_type="application/json")
        session.notice = done.words
        return _redirect(path(kind.path, namespace, name, *done.shown_on))

    async def _what_if(self, request: web.Request, session: Session) -> web.StreamResponse:
        given = await _form(request)
        namespace, manifest = (str(given.get(one, "")) for one in ("namespace", "manifest"))
        async with self._plan(session):
            with _http_errors():
                view = await self._views.what_if(session.caller, namespace.strip(), manifest, session.csrf)
        return await self._shown(request, session, view)

    async def _badge(self, kind: WorkloadKind, request: web.Request, session: Session) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        with _http_errors():
            found = await self._views.badge(session.caller, kind, namespace, name)
        if "application/json" in request.headers.get("Accept", ""):
            return web.Response(body=msgspec.json.encode(found), content_type="application/json")
        return web.Response(text=svg(found), content_type="image/svg+xml", charset="utf-8")

    async def _view(self, session: Session, raw_path: str, query: Mapping[str, str]) -> View:
        """Parts are decoded after they are told apart: an encoded slash begins no new part."""
        parts = [unquote(one) for one in raw_path.removeprefix(f"{ROOT}/").split("/")]
        return await self._views.find(session.caller, parts, query, session.csrf)

    async def _live(self, request: web.Request, session: Session) -> web.StreamResponse:
        address = urlsplit(request.query.get("view", ""))
        if not address.path.startswith(f"{ROOT}/"):
            raise web.HTTPBadRequest(reason="view: must be a path of the dashboard")
        if _ACTIONS in unquote(address.path):
            raise web.HTTPBadRequest(reason="view: a preview has no live updates")
        query, user = dict(parse_qsl(address.query)), session.caller.user

        async def make() -> View:
            current = await self._session(request)
            if current is None:
                raise NoSuchPage("the session has ended")
            with current.caller.use.request():
                return await self._view(current, address.path, query)

        changes = self._broadcast.open()
        try:
            stream = EventStream(request)
            async with self._streaming(stream, session) as send:
                try:
                    digest = request.query.get("digest", "")
                    async for updates in updates_of(make, changes, digest, lambda: self._streams_of[user]):
                        await send("sections", updates)
                except (NoSuchPage, BadParameter):
                    await send("gone", [""])
            return stream.response
        finally:
            self._broadcast.close(changes)

    async def _logs(self, kind: WorkloadKind, request: web.Request, session: Session) -> web.StreamResponse:
        namespace, name = request.match_info["namespace"], request.match_info["name"]

        async def sources() -> list[ContainerLog]:
            """As far as the user may see pods now: a session may end, and a right may be taken away."""
            current = await self._session(request)
            if current is None:
                raise NoSuchPage("the session has ended")
            subject = await self._views.subject(current.caller, kind, namespace, name)
            return self._views.log_sources(subject, request.query)

        with _http_errors():
            await sources()
        stream, container = EventStream(request), request.query.get("container", "")
        async with self._streaming(stream, session) as send:
            try:
                async with aclosing(merged_lines(session.caller.client, namespace, sources, container)) as batches:
                    async for lines in batches:
                        await send("lines", lines)
            except NoSuchPage:
                await send("end", [""])
        return stream.response

    @asynccontextmanager
    async def _streaming(self, stream: "EventStream", session: Session) -> AsyncIterator["EventStream"]:
        """A browser that leaves ends the body."""
        user = session.caller.user
        if len(self._streams) >= MOST_STREAMS or self._streams_of[user] >= MOST_STREAMS_OF_USER:
            raise web.HTTPServiceUnavailable(reason="too many pages are open: close some")
        self._streams.add(stream)
        self._streams_of[user] += 1
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await stream.begin()
            yield stream
        except ConnectionError:
            pass  # The browser has left.
        finally:
            self._open.discard(task)
            self._streams.discard(stream)
            self._streams_of[user] -= 1
            self._streams_of = +self._streams_of

    # Answers

    def _html(self, text: Html, status: int) -> web.Response:
        return web.Response(text=text, status=status, content_type="text/html", charset="utf-8")

    def _message(self, status: int, title: str, text: str) -> web.Response:
        return self._html(message_page(title, text, self._version), status)

    def _error(
        self, request: web.Request, status: int, reason: str, *, sees_nodes: bool = False, lost: bool = False
    ) -> web.Response:
        """`lost`: there is no workload that the address is below of."""
        if _wants_page(request):
            title = {404: "Not found", 403: "Not allowed", 429: "Too many requests"}.get(status, "This did not work")
            page_of_error = message_page(
                *(title, _sentence(reason), self._version, _way_back("" if lost else request.path)),
                navigates=True,
                sees_nodes=sees_nodes,
            )
            answer = self._html(page_of_error, status)
        else:
            body = msgspec.json.encode({"status": status, "message": reason})
            answer = web.Response(body=body, status=status, content_type="application/json")
        if status == 429:
            answer.headers["Retry-After"] = "1"
        return answer


class StreamLoad(msgspec.Struct, frozen=True):
    """What open pages cost."""

    streams: int
    queued_bytes: int
    """That browsers have not taken yet."""


class EventStream:
    """Server-sent events to one browser. The next event is made when the last one was taken, so at most one waits."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._waiting = 0
        self.response = web.StreamResponse(headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream"})

    async def begin(self) -> None:
        await self.response.prepare(self._request)
        await self.response.write(b"retry: 1000\n\n")

    async def __call__(self, event: str, items: Sequence[object]) -> None:
        """An event with these items; without any, a comment that shows life."""
        text = f"event: {event}\ndata: ".encode() + msgspec.json.encode(items) + b"\n\n" if items else b":\n\n"
        try:
            for start in range(0, len(text), PIECE_BYTES):
                self._waiting = len(text) - start
                async with asyncio.timeout(TAKE_SECONDS):
                    await self.response.write(text[start : start + PIECE_BYTES])
        except TimeoutError:
            transport = self._request.transport
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
            raise ConnectionResetError("the browser takes nothing") from None
        finally:
            self._waiting = 0

    @property
    def queued_bytes(self) -> int:
        transport = self._request.transport
        return self._waiting + (
            transport.get_write_buffer_size() if isinstance(transport, asyncio.WriteTransport) else 0
        )


async def _form(request: web.Request) -> "Mapping[str, object]":
    """The fields of a form, which must come in time."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.post()
    except TimeoutError:
        raise web.HTTPRequestTimeout(reason=f"the body has not come within {BODY_SECONDS:g} s") from None


@contextmanager
def _http_errors() -> Iterator[None]:
    try:
        yield
    except NoSuchPage as problem:
        raise web.HTTPNotFound(reason=_one_line(problem)) from problem
    except BadParameter as problem:
        raise web.HTTPBadRequest(reason=_one_line(problem)) from problem
    except ActionRefused as problem:
        raise web.HTTPConflict(reason=_one_line(problem)) from problem


def _sentence(reason: str) -> str:
    """Names of parameters stay as an address has them.

    >>> _sentence("there is no node a"), _sentence("from: 'x' is not a number")
    ('There is no node a.', "from: 'x' is not a number.")
    """
    names_parameter = ":" in reason.partition(" ")[0]
    return f"{reason}." if names_parameter else f"{reason[:1].upper()}{reason[1:]}."


def _way_back(address: str) -> Html:
    """From an error: to the workload that the address is below of, to the nodes, or to the fleet.

    >>> _way_back("/dashboard/sets/default/llm/actions/scale")
    '<p><a href="/dashboard/sets/default/llm">Back to llm</a></p>'
    >>> _way_back("/dashboard/sets/default/llm")
    '<p><a href="/dashboard/">Back to the fleet</a></p>'
    """
    match address.removeprefix(f"{ROOT}/").split("/"):
        case [kind, namespace, name, _, *_] if kind in BY_PATH:
            return tag("p", tag("a", f"Back to {name}", href=path(kind, namespace, name)))
        case ["nodes", _, *_]:
            return tag("p", tag("a", "Back to the nodes", href=path("nodes")))
    return tag("p", tag("a", "Back to the fleet", href=f"{ROOT}/"))


_TOKEN_TEXT: Final = (
    "Enter a bearer token of this cluster. The dashboard shows what this user may read and does nothing that this user "
    "may not do. For a service account: kubectl create token NAME."
)
_CERTIFICATE_TEXT: Final = (
    "Users of this dashboard show a client certificate of the cluster; this browser showed none that is valid now. "
    "Import yours, with its key, into the browser, and load the page again."
)


def _own_page(address: str) -> str:
    """Where a login leads: to a page of the dashboard, never to another site.

    >>> _own_page("/dashboard/sets/default/llm?page=2")
    '/dashboard/sets/default/llm?page=2'
    >>> _own_page("//evil.example.com/dashboard/"), _own_page("/dashboard/\\r\\nLocation:")
    ('/dashboard/', '/dashboard/')
    """
    fine = address.startswith(f"{ROOT}/") and address.isascii() and address.isprintable() and "\\" not in address
    return address if fine else f"{ROOT}/"


def _token_form(to: str) -> Html:
    return tag(
        "form",
        tag("input", type="hidden", name="to", value=to) if to != f"{ROOT}/" else None,
        tag(
            "div",
            tag("label", "Token", for_="token"),
            tag("input", type="password", name="token", id="token"),
            class_="field",
        ),
        tag("button", "Log in", type="submit"),
        method="post",
        action=f"{ROOT}/login",
        class_="login",
    )


def _wants_page(request: web.Request) -> bool:
    """JSON only for those who ask for it: a browser names HTML first."""
    return "application/json" not in request.headers.get("Accept", "").split(",")[0]


def _redirect(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address})


def _read(name: str) -> bytes:
    return resources.files("kohort.dashboard").joinpath("static", name).read_bytes()


def _one_line(problem: Exception) -> str:
    """As the reason of an HTTP answer may be."""
    return " ".join(str(problem).split())
