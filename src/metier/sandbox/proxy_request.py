"""What a program asks of the proxy, turned into a request of ours, and the answer turned back. Pure."""

from typing import Final, final

import h11
from msgspec import Struct

from metier.sandbox.reply import Answer
from metier.sandbox.url import BadUrl, Url, read_url

_NOT_HANDED_ON: Final = frozenset(
    {"host", "connection", "proxy-connection", "keep-alive", "te", "trailer", "upgrade", "expect"}
    | {"content-length", "transfer-encoding", "accept-encoding", "proxy-authorization"}
)
_NOT_HANDED_BACK: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "content-length", "upgrade"}
    | {"trailer", "proxy-authenticate", "alt-svc"}
)
_WITHOUT_BODY: Final = frozenset({204, 304})


@final
class Problem(Struct, frozen=True, kw_only=True):
    """Why a request is not taken, as the program is told."""

    status: int
    why: str


@final
class Forwarded(Struct, frozen=True, kw_only=True):
    """A request as egress takes it."""

    method: str
    url: str
    headers: dict[str, str]


def forwarded(asked: h11.Request) -> Forwarded | Problem:
    """The request that a program wants sent for it."""
    target = asked.target.decode("latin-1")
    if "://" not in target:
        return Problem(
            status=400, why="This is a proxy: ask it for a whole URL, or for a tunnel with CONNECT host:port"
        )
    url = read_url(target)
    if isinstance(url, Url) and not _host_line_is(asked, url):
        return Problem(status=400, why="The Host line names another place than the URL")
    headers: dict[str, str] = {}
    for raw_name, raw_value in asked.headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name not in _NOT_HANDED_ON:
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Forwarded(method=asked.method.decode("latin-1"), url=target, headers=headers)


def same_place(asked: h11.Request, place: str) -> bool:
    """Whether the Host line of a CONNECT names what it asks for. Some clients leave out the port there."""
    url = read_url(f"https://{place}/")
    return isinstance(url, BadUrl) or _host_line_is(asked, url)


def _host_line_is(asked: h11.Request, url: Url) -> bool:
    lines = [value.decode("latin-1") for name, value in asked.headers if name == b"host"]
    if len(lines) != 1:
        return not lines  # HTTP/1.0 has none; two would be two opinions
    said = read_url(f"{url.scheme}://{lines[0]}/")
    port_left_out = ":" not in lines[0].rpartition("]")[2]
    return isinstance(said, Url) and said.host == url.host and (said.port == url.port or port_left_out)


def outgoing(answer: Answer, method: str) -> bytes:
    """An answer as bytes for the program. The connection ends with it."""
    lines = [f"HTTP/1.1 {answer.status} Answer"]
    lines += [f"{name}: {value}" for name, value in answer.headers if name not in _NOT_HANDED_BACK]
    if method != "HEAD" and answer.status not in _WITHOUT_BODY:
        lines.append(f"content-length: {len(answer.body)}")
    head = "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1", "replace")
    return head if method == "HEAD" else head + answer.body
