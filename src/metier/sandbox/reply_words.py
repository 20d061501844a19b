"""An answer or a failure of egress in the words in which running code is told of it. Pure."""

import codecs
from typing import Final

from metier.model.digest import Json
from metier.sandbox.reply import Answer, FailedCode

_NAMES: Final[dict[FailedCode, str]] = {
    "invalid_url": "InvalidRequest",
    "invalid_request": "InvalidRequest",
    "secret_unavailable": "SecretUnavailable",
    "timed_out": "TimedOut",
    "too_large": "TooLarge",
}


def failure_name(code: FailedCode) -> str:
    """The name of the error for a request that got no answer."""
    return _NAMES.get(code, "HttpFailed")


def header_object(answer: Answer) -> dict[str, Json]:
    """Header lines by name; of a name that came several times all values, with commas between them."""
    headers: dict[str, Json] = {}
    for name, value in answer.headers:
        earlier = headers.get(name)
        headers[name] = f"{earlier}, {value}" if isinstance(earlier, str) else value
    return headers


def as_text(body: bytes, *, cut: bool) -> str | None:
    """A body as text if it is UTF-8; when it was cut, the character the cut went through is left out."""
    try:
        return codecs.getincrementaldecoder("utf-8")().decode(body, final=not cut)
    except UnicodeDecodeError:
        return None
