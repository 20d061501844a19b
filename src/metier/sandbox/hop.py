"""One request of a chain of redirects, and what the next one may take along. Pure."""

from typing import Final, final
from urllib.parse import urljoin

from msgspec import Struct

from metier.sandbox.headers import Lines, lines_that_follow
from metier.sandbox.reply import Answer, Failed
from metier.sandbox.url import Url

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD: Final = frozenset({307, 308})


@final
class Hop(Struct, frozen=True, kw_only=True):
    """What is sent to one place. It holds secrets: it is never shown, and dropped with the request."""

    method: str
    url: Url
    lines: Lines
    body: bytes


def location(hop: Hop, answer: Answer) -> str | None:
    """Where `answer` sends us, as an absolute text that has still to be read and admitted; None if it does not."""
    if answer.status not in REDIRECTS:
        return None
    written = next((value for name, value in answer.headers if name == "location"), None)
    if written is None:
        return None
    # Only a text without anything a lenient reader would drop is joined; any other is shown to the strict one.
    plain = written.isascii() and written.isprintable() and " " not in written and "\\" not in written
    try:
        return urljoin(str(hop.url), written) if plain else written
    except ValueError:
        return written


def next_hop(hop: Hop, status: int, url: Url) -> Hop | Failed:
    """The hop after `hop`, now that `url` was admitted. No step down from https; credentials stay where they were."""
    if hop.url.scheme == "https" and url.scheme == "http":
        return Failed(
            code="redirect_refused", message=f"{hop.url.origin} redirects from https to {url.origin}"
        )
    method = hop.method
    if (status == 303 and method != "HEAD") or (status not in _KEEP_METHOD and method == "POST"):
        method = "GET"
    same_origin = url.origin == hop.url.origin
    body = hop.body if method == hop.method else b""
    if body and not same_origin:
        return Failed(
            code="redirect_refused",
            message=f"{hop.url.origin} redirects a request with a body to {url.origin}; send it there yourself",
        )
    lines = lines_that_follow(hop.lines, same_origin=same_origin, with_body=bool(body))
    return Hop(method=method, url=url, lines=lines, body=body)
