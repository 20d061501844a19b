"""The small page at `/`, until there is a console: it takes up a sign-in link and says who signed in. Three fixed files, and no other
file of the disk can be asked for."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metier.doors.http.endpoint import no_such_method
from metier.doors.http.guard import PAGE_POLICY
from metier.doors.http.problem import problem

_FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def page_routes() -> Sequence[BaseRoute]:
    """The page and what it is made of."""
    return [_file(path, name, kind) for path, (name, kind) in _FILES.items()]


def _file(path: str, name: str, kind: str) -> Route:
    data = (files("metier.doors.http") / "page_files" / name).read_bytes()

    async def shown(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return problem(no_such_method({"GET": shown}))
        return Response(
            data,
            headers={
                "content-type": kind,
                "content-security-policy": PAGE_POLICY,
                "cache-control": "no-cache",
            },
        )

    made = Route(path, shown)
    made.methods = set()
    return made
