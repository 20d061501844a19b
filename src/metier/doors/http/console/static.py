"""The fixed files of the console. Each is served under an address with its digest in it, so a browser keeps it until it is another one."""

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from metier.doors.http.routing import Answering, only

_KINDS: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY: Final = "default-src 'none'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'"
"""The script that listens for all tabs works under its own policy, which comes with it."""


@cache
def _found() -> dict[str, bytes]:
    folder = files("metier.doors.http.console") / "static"
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name[each.name.rfind(".") :] in _KINDS
    }


@cache
def addresses() -> dict[str, str]:
    """Where each file is, by its name."""
    return {
        name: f"/static/{hashlib.sha256(data).hexdigest()[:16]}/{name}" for name, data in _found().items()
    }


def static_routes() -> Sequence[BaseRoute]:
    """One route for each file, and nothing else can be asked for."""
    return [only(address, _serving(name)) for name, address in addresses().items()]


def _serving(name: str) -> Answering:
    data, kind = _found()[name], _KINDS[name[name.rfind(".") :]]

    async def served(request: Request) -> Response:
        return Response(
            data,
            headers={
                "content-type": kind,
                "content-security-policy": _POLICY,
                "cache-control": "public, max-age=31536000, immutable",
            },
        )

    return served
