"""The small page at `/`, until there is a console: it takes up a sign-in link, says who signed in and what waits, and lets him decide
one request. A few fixed files, and no other file of the disk can be asked for."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metier.doors.http.endpoint import no_such_method
from metier.doors.http.guard import PAGE_POLICY
from metier.doors.http.problem import Refusal, problem

_FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/decide.js": ("decide.js", "text/javascript; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
}


def page_routes() -> Sequence[BaseRoute]:
    """The page and what it is made of."""
    return [_file(path, name, kind) for path, (name, kind) in _FILES.items()]


def refused_page(refusal: Refusal) -> Response:
    """Why something was not done, for a person whose browser was sent there, and where he can go on."""
    told = refusal.problem
    said = "".join(f"<p>{escape(each)}</p>" for each in (f"{told.detail}.", told.remedy) if each)
    return Response(
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Metier</title>'
        f'<link rel="stylesheet" href="/page.css"></head><body><main><h1>Not signed in</h1>{said}'
        f'<p><a href="/">Back to the page</a></p></main></body></html>\n',
        told.status,
        {**refusal.headers, "content-security-policy": PAGE_POLICY, "cache-control": "no-store"},
        media_type="text/html",
    )


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
