"""Everything that is served, put together: the guard first, then the pages, the API, sign-in, and whatever other door is mounted."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route, Router

from metier.doors.http import (
    approvals,
    audit,
    calls,
    events,
    health,
    modules,
    settings,
    sign_in_asked,
    tokens,
    tools,
)
from metier.doors.http.console.routes import console_routes, no_such_page
from metier.doors.http.described import Described
from metier.doors.http.endpoint import Endpoint, answered
from metier.doors.http.guard import Guard, Ours, may_be_a_page
from metier.doors.http.openapi import DOCUMENT, document
from metier.doors.http.problem import not_found, problem
from metier.doors.http.routing import READING, every_method, only
from metier.doors.http.serving import Serving
from metier.runtime.as_raised import as_raised

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *(*calls.ENDPOINTS, *tools.ENDPOINTS, *modules.ENDPOINTS, *approvals.ENDPOINTS),
    *(*audit.ENDPOINTS, *settings.ENDPOINTS, *events.ENDPOINTS, *tokens.ENDPOINTS),
)

DESCRIBED: Final[tuple[Described, ...]] = (*ENDPOINTS, *sign_in_asked.DESCRIBED, *health.DESCRIBED)
"""Everything that the document speaks of."""


def application(
    serving: Serving,
    ours: Callable[[], Ours],
    *,
    more: Sequence[BaseRoute] = (),
    mounted: Mapping[str, "ASGIApp"] | None = None,
) -> "ASGIApp":
    """The whole door.

    Args:
        more: further routes, of sign-in.
        mounted: other doors by the path they are at, exactly: `/mcp`. They are behind the same guard, and ask the same gatekeeper.
    """
    routes: list[BaseRoute] = [
        *(_Exactly(path, _Ending(app, serving)) for path, app in (mounted or {}).items()),
        *more,
        *(_route(serving, path, methods) for path, methods in by_path(ENDPOINTS).items()),
        only(DOCUMENT, _documented()),
        *health.health_routes(serving),
        *console_routes(serving),
    ]
    return Guard(Router(routes, redirect_slashes=False, default=_nothing_here(serving)), ours, serving.room)


def by_path(endpoints: Iterable[Endpoint]) -> dict[str, dict[str, Endpoint]]:
    """The endpoints of each path, by their method. Fixed paths come before those with something in them."""
    found: dict[str, dict[str, Endpoint]] = {}
    for each in sorted(endpoints, key=lambda each: ("{" in each.path, each.path)):
        found.setdefault(each.path, {})[each.method] = each
    return found


def _route(serving: Serving, path: str, methods: Mapping[str, Endpoint]) -> Route:
    async def ask(request: Request) -> Response:
        return await answered(serving, methods, request)

    return every_method(path, ask)  # who asks is known before anything is said about methods


class _Ending:
    """Another door, whose streams end with the server. What is under way by POST has its grace like everybody else."""

    def __init__(self, app: "ASGIApp", serving: Serving) -> None:
        self._app = app
        self._serving = serving

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        with as_raised():
            async with anyio.create_task_group() as tasks:

                async def over() -> None:
                    await self._serving.ending.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(over)
                await self._app(scope, receive, send)
                tasks.cancel_scope.cancel()


class _Exactly(Mount):
    """Another door at one path, and at nothing below it."""

    def __init__(self, path: str, app: "ASGIApp") -> None:
        super().__init__(path, app=app)
        self._path = path

    def matches(self, scope: "Scope") -> "tuple[Match, Scope]":
        """Whether it is this very path."""
        if scope["type"] == "http" and scope["path"] == self._path:
            return Match.FULL, {"endpoint": self.app}
        return Match.NONE, {}


def _documented() -> Callable[[Request], Awaitable[Response]]:
    made: list[bytes] = []

    async def shown(request: Request) -> Response:
        if not made:
            made.append(document(DESCRIBED))
        return Response(made[0], media_type="application/json")

    return shown


def _nothing_here(serving: Serving) -> "ASGIApp":
    """A person who was led to nothing is told so on a page, with a way on; a program as everywhere else."""
    page = no_such_page(serving)

    async def answer(scope: "Scope", receive: "Receive", send: "Send") -> None:
        request = Request(scope, receive)
        person = request.method in READING and "text/html" in request.headers.get("accept", "")
        shown = person and may_be_a_page(scope["raw_path"])
        await (await page(request) if shown else problem(not_found()))(scope, receive, send)

    return answer
