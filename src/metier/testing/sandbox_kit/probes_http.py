"""The acts as requests, for a sandbox that sends them. The server does what elsewhere the code does.

Where an act needs code there is none to run it: it is handed over as Python all the same, and must not be started.
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast, final

import anyio
import msgspec

from metier.model.entry import HttpRequest, InlineCode
from metier.model.job import Report
from metier.testing.sandbox_kit import acts_http
from metier.testing.sandbox_kit.guest import Bare, Prepared
from metier.testing.sandbox_kit.outside import KEPT
from metier.testing.sandbox_kit.probes_python import acts

ORIGIN: Final = "http://kit.example"
"""Where the acts are. The backend is opened so that this name leads to the server."""
SLOW_ORIGIN: Final = "http://slow.example"
"""A name that takes longer to look up than any test waits."""
_NO_CODE: Final = "a request is our own: no code of a skill runs, and code is not taken"
_SERVED: Final = frozenset({*acts_http.ACTS, "network", "by_grant"})


@final
class HttpGuest:
    """Requests to a server of the kit's own."""

    name: Final = "http"
    bridged: Final = True
    has_processes: Final = False
    burns_fuel: Final = False
    leaves_uncaught: Final = frozenset[str]()
    leaves_silent: Final = frozenset({"raised"})
    odd_as: Final[tuple[type, ...]] = (str, dict)
    ways: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {}
    certain: Final[Mapping[str, tuple[str, ...]]] = {
        "network": ("tcp",),
        "by_grant": ("plain", "other", "other_port", "redirected"),
    }

    def __init__(self, port: Callable[[], int]) -> None:
        """`port` tells where on loopback the server listens now."""
        self._port = port

    @property
    def absent(self) -> Mapping[str, str]:
        return dict.fromkeys((act for act in acts() if act not in _SERVED), _NO_CODE)

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        if act not in _SERVED:
            return Prepared(
                entry=InlineCode(language="python", source="result = 1\n"), arguments=dict(params)
            )
        if act == "network":
            url = f"http://127.0.0.1:{params['tcp']}/"
            return Prepared(entry=HttpRequest(method="GET", url=url), arguments=dict(params))
        if act == "by_grant":
            (url,) = params["ways"].values()
            return Prepared(entry=HttpRequest(method="GET", url=url))
        body = {name: f"{{{{{name}}}}}" for name in params if _is_place(name)}
        fixed = {name: value for name, value in params.items() if not _is_place(name)}
        origin = SLOW_ORIGIN if at_load else ORIGIN
        entry = HttpRequest(method="POST", url=f"{origin}/{act}", body={**fixed, **body})
        return Prepared(entry=entry, arguments=dict(params), hosts=(origin,))

    def said(self, report: Report) -> Any:
        if report.denials or report.violations:
            return {"did": [], "refused": [each.detail for each in (*report.denials, *report.violations)]}
        value = cast("dict[str, Any]", report.value) if isinstance(report.value, dict) else {}
        return value.get("body")

    def shown(self, report: Report) -> str:
        body = self.said(report)
        if isinstance(body, dict):
            told = cast("dict[str, Any]", body)
            if "base64" in told:
                import base64

                return base64.b64decode(told["base64"]).decode(errors="replace")
            return " ".join(str(each) for each in told.values())
        return "" if body is None else str(body)

    async def bare(
        self,
        act: str,
        params: Mapping[str, Any],
        *,
        cwd: str,
        seconds: float,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> Bare:
        """As a client without any bound: it takes whatever comes, for as long as it comes, and keeps cookies where it is."""
        if act == "by_grant":
            return await _through_a_proxy(params["ways"], environment["http_proxy"])
        network = act == "network"
        body = b"" if network else msgspec.json.encode(params)
        jar = os.path.join(cwd, "cookies")
        head = f"POST /{act} HTTP/1.1\r\nHost: kit\r\nContent-Length: {len(body)}\r\n{_cookies(jar)}\r\n".encode()
        began = time.monotonic()
        answer, size, done = b"", 0, False
        with anyio.move_on_after(seconds):
            port = params["tcp"] if network else self._port()
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                if network:
                    return Bare(value={"did": ["tcp"]}, exit_code=0)
                await stream.send(head + body)
                async for piece in stream:
                    size += len(piece)
                    answer += piece[: max(0, KEPT - len(answer))]
            done = True
        first, _, told = answer.partition(b"\r\n\r\n")
        _keep_cookies(jar, first)
        code = _code(act, params) if done else None
        seconds = time.monotonic() - began
        return Bare(value=_value(act, told, size), exit_code=code, stdout=told, seconds=seconds)


async def _through_a_proxy(ways: Mapping[str, str], proxy: str) -> Bare:
    """As a client that is told of a proxy and follows where it is sent."""
    (url,) = ways.values()
    answer = b""
    for _ in range(2):
        async with await anyio.connect_tcp("127.0.0.1", int(proxy.rpartition(":")[2])) as stream:
            await stream.send(f"GET {url} HTTP/1.1\r\nHost: {url.split('/')[2]}\r\n\r\n".encode())
            answer = b"".join([piece async for piece in stream])
        head, _, body = answer.partition(b"\r\n\r\n")
        if b"\r\nLocation: " not in head:
            return Bare(value=_value("by_grant", body, len(body)), exit_code=0, stdout=body)
        url = head.partition(b"\r\nLocation: ")[2].split(b"\r\n")[0].decode()
    return Bare(exit_code=1, stdout=answer)


def _cookies(jar: str) -> str:
    """The header with what was kept, if anything was."""
    try:
        with open(jar, encoding="latin-1") as file:
            return f"Cookie: {file.read()}\r\n"
    except FileNotFoundError:
        return ""


def _keep_cookies(jar: str, head: bytes) -> None:
    for line in head.decode("latin-1").split("\r\n"):
        name, _, value = line.partition(": ")
        if name.lower() == "set-cookie":
            with open(jar, "w", encoding="latin-1") as file:
                file.write(value.partition(";")[0])


def _is_place(name: str) -> bool:
    """Whether an argument of this name can be asked for in an entry."""
    return name.isidentifier()


def _value(act: str, body: bytes, size: int) -> Any:
    if act == "memory":
        return {"mb": size >> 20}
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _code(act: str, params: Mapping[str, Any]) -> int:
    """A connection has no exit code: when it was closed as asked for, that is what was asked for."""
    return int(params.get("code", 0)) if act == "end" else 0
