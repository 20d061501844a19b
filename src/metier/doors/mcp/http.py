"""MCP over streamable HTTP, for `metier serve` to mount at `/mcp`, behind its guard (Host, Origin, sizes and clocks are held there).

Only a token lets anybody in here, and only one of an agent's: a cookie is a person in a browser, and what speaks MCP is a program.
The token is ours and goes nowhere else; one that somebody else issued is none. Who asks is found anew for every request, and a stream
ends when its token does.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, final

import anyio
import msgspec
from anyio import to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response

from metier.doors.http.endpoint import forbidden
from metier.doors.http.problem import Refusal, of_error
from metier.doors.http.room import let_in
from metier.doors.mcp.aside import Reader
from metier.doors.mcp.lasting import LOOK_SECONDS
from metier.doors.mcp.messages import BUSY, MOST_BYTES, Bad, UnderWay, is_request
from metier.doors.mcp.own_clients import tell
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.server import McpServer
from metier.doors.mcp.session_of import connection_of, session_in
from metier.errors import MetierError
from metier.model.role import EXECUTE
from metier.runtime.as_raised import as_raised
from metier.runtime.engine import Engine

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

    from metier.doors.http.identity import Gatekeeper, Identity
    from metier.doors.mcp.peer import Context

MOST_REQUESTS: Final = 64
"""Of one token, under way at once: streams too."""
MOST_SESSIONS: Final = 512
MOST_SESSIONS_OF_ONE: Final = 32
IDLE_SECONDS: Final = 1_800.0
_LOOK_SECONDS: Final = 1.0
"""How often a request that takes long is asked whether its token still lets it in."""
_LAST_SECONDS: Final = 2 * LOOK_SECONDS
"""So long an answer has to say that the token ended, before it is cut off."""
_GOODBYE_SECONDS: Final = 0.1
_PEER: Final = "metier.peer"
_AGAIN: Final = b"last-event-id"
_METHODS: Final = ("GET", "POST", "DELETE")


@asynccontextmanager
async def mcp_app(
    engine: Engine,
    gatekeeper: "Gatekeeper",
    *,
    ending: anyio.Event,
    decide_at: Callable[[str], str] = lambda _: "",
) -> "AsyncGenerator[McpApp]":
    """The ASGI application, for as long as this is entered.

    Args:
        ending: set once the server is about to end, while it still answers.
        decide_at: the page where an approval can be decided; empty where there is none.
    """
    await to_thread.run_sync(tell, engine.seen.settings)
    server = McpServer(engine, _who, decide_at=decide_at)
    sessions = StreamableHTTPSessionManager(
        app=server,
        json_response=False,
        session_idle_timeout=IDLE_SECONDS,
        max_request_body_size=MOST_BYTES,
        max_sessions=MOST_SESSIONS,
    )

    async def say_goodbye() -> None:
        await ending.wait()
        while True:  # one that begins to listen just now hears it too
            server.changes.close()
            await anyio.sleep(_GOODBYE_SECONDS)

    async with sessions.run(), anyio.create_task_group() as tasks:
        for each in (server.changes.follow, server.lasting.follow, say_goodbye):
            tasks.start_soon(each)
        try:
            yield McpApp(gatekeeper, sessions)
        finally:
            server.changes.close()
            tasks.cancel_scope.cancel()


@final
class McpApp:
    """Belongs to one loop."""

    def __init__(self, gatekeeper: "Gatekeeper", sessions: StreamableHTTPSessionManager) -> None:
        self._gatekeeper = gatekeeper
        self._sessions = sessions
        self._open: dict[str, int] = {}
        self._ids: dict[str, UnderWay] = {}
        self._read = Reader()
        self._opening: dict[str, anyio.Lock] = {}
        """By token: whoever opens a session, so that those before him are counted."""

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """One request.

        Raises:
            Refusal: when it is not even looked at.
        """
        if scope["type"] != "http":
            return
        if scope["method"] not in _METHODS:
            raise Refusal(
                405,
                "method_not_allowed",
                "MCP takes POST, GET and DELETE",
                remedy="Use one of these",
                Allow=", ".join(_METHODS),
            )
        try:
            identity = await self._let_in(scope)
        except MetierError as error:
            raise of_error(error) from error
        ref = identity.ref
        if self._open.get(ref, 0) >= MOST_REQUESTS:
            raise Refusal(
                429,
                "too_many_requests",
                f"{MOST_REQUESTS} requests of this token are under way",
                remedy="Wait until some of them have ended",
                Retry_After="1",
            )
        self._open[ref] = self._open.get(ref, 0) + 1
        try:
            await self._take(identity, scope, receive, send)
        finally:
            self._open[ref] -= 1
            if not self._open[ref]:
                del self._open[ref]

    async def _let_in(self, scope: "Scope") -> "Identity":
        identity = await self._gatekeeper.who(scope["headers"])
        let_in(scope, identity.principal)
        if identity.by != "token":
            raise Refusal(
                401,
                "unauthenticated",
                "MCP takes a token, and no cookie",
                remedy="Send `Authorization: Bearer metier_…`; `metier tokens add` makes one",
                WWW_Authenticate="Bearer",
            )
        if identity.principal.kind != "agent":
            raise Refusal(
                403,
                "forbidden",
                "what speaks MCP is a program, and this token belongs to a person",
                remedy="Register an agent with `metier principals add`, and make a token for it",
            )
        if EXECUTE not in await self._gatekeeper.rights(identity):
            raise forbidden(EXECUTE)
        return identity

    async def _take(self, identity: "Identity", scope: "Scope", receive: "Receive", send: "Send") -> None:
        gone = anyio.Event()
        try:
            await self._take_from(identity, gone, scope, receive, send)
        finally:
            gone.set()

    async def _take_from(
        self, identity: "Identity", gone: anyio.Event, scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        session = session_in(scope["headers"])
        scope = {
            **scope,
            # Nothing is kept to be told again, so who comes back gets a new stream; the SDK would answer nothing at all.
            "headers": [each for each in scope["headers"] if each[0] != _AGAIN],
            _PEER: Peer(
                principal=identity.principal,
                connection=connection_of(identity.ref, session),
                remote=True,
                gone=gone,
                steering=self._gatekeeper.steering,
            ),
            "user": AuthenticatedUser(
                AccessToken(token="", client_id=identity.ref, scopes=[], subject=identity.principal.id)
            ),
        }
        if scope["method"] != "POST":
            await self._while_let_in(identity, scope, receive, send)
            return
        raw = await _body(receive)
        if raw is None:
            return
        message = await self._read(raw)
        if isinstance(message, Bad):
            await _answer(message)(scope, receive, send)
            return
        if not session and message.get("method") == "initialize":
            await self._open_session(identity, scope, _again(raw, receive), send)
            return
        if not session or not is_request(message):
            await self._while_let_in(identity, scope, _again(raw, receive), send)
            return
        # Within a session an id names a stream, so one that is under way is not given out again.
        key = f"{identity.ref}\n{session}"
        under_way = self._ids.setdefault(key, UnderWay(MOST_REQUESTS))
        if (bad := under_way.begin(message)) is not None:
            await _answer(bad)(scope, receive, send)
            return
        id = message["id"]
        del message  # it may be large, and what it asks for may take long
        try:
            await self._while_let_in(identity, scope, _again(raw, receive), send)
        finally:
            under_way.end(id)
            if under_way.empty:
                self._ids.pop(key, None)

    async def _open_session(
        self, identity: "Identity", scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        """One after the other for each token: the SDK counts a session only once it is there."""
        lock = self._opening.setdefault(identity.ref, anyio.Lock())
        try:
            async with lock:
                if (bad := self._too_many(identity)) is not None:
                    await _answer(bad)(scope, receive, send)
                    return
                await self._while_let_in(identity, scope, receive, send)
        finally:
            if not lock.locked() and not lock.statistics().tasks_waiting:
                self._opening.pop(identity.ref, None)

    def _too_many(self, identity: "Identity") -> Bad | None:
        owners = self._sessions._session_owners.values()  # pyright: ignore[reportPrivateUsage]  the SDK counts only all of them
        if sum(each["client_id"] == identity.ref for each in owners) < MOST_SESSIONS_OF_ONE:
            return None
        return Bad(
            BUSY, f"this token has {MOST_SESSIONS_OF_ONE} sessions open; end one, or wait until they are idle"
        )

    async def _while_let_in(
        self, identity: "Identity", scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        """Hand it to the SDK, and end it when the token ends. What was asked ends by itself then, and its answer says so."""
        out = False

        async def look(within: anyio.CancelScope) -> None:
            nonlocal out
            while True:
                await anyio.sleep(_LOOK_SECONDS)
                if not await to_thread.run_sync(self._gatekeeper.still, identity):
                    if scope["method"] == "POST":
                        await anyio.sleep(_LAST_SECONDS)
                    out = True
                    within.cancel()

        with as_raised():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(look, tasks.cancel_scope)
                await self._sessions.handle_request(scope, receive, send)
                tasks.cancel_scope.cancel()
        if out:
            raise Refusal(
                401,
                "unauthenticated",
                "the token lets nobody in any more",
                remedy="`metier tokens list` shows those that do",
                WWW_Authenticate="Bearer",
            )


def _who(ctx: "Context") -> Peer:
    """Whom the request was let in as. The SDK hands on the request it came with."""
    found: Any = ctx.request.scope.get(_PEER) if ctx.request is not None else None
    if not isinstance(found, Peer):
        raise TypeError("a request of MCP came in past its door")
    return found


async def _body(receive: "Receive") -> bytes | None:
    """All of it; None where the client went away first."""
    kept = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        kept += message.get("body", b"")
        if len(kept) > MOST_BYTES:
            raise Refusal(
                413,
                "too_large",
                f"a message has at most {MOST_BYTES:,} bytes",
                remedy="Send it in parts",
                connection="close",
            )
        if not message.get("more_body"):
            return bytes(kept)


def _again(raw: bytes, receive: "Receive") -> "Receive":
    """The same body once more, for the SDK; after it what really comes."""
    given = False

    async def again() -> "Message":
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": raw, "more_body": False}

    return again


def _answer(bad: Bad) -> Response:
    body = msgspec.json.encode(bad.answer)
    if bad.code == BUSY:  # what is full is his own share
        return Response(body, 429, {"retry-after": "1"}, media_type="application/json")
    return Response(body, 400, media_type="application/json")
