"""Which header lines may go out, which may follow a redirect, and what is handed on of those that come back."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from metier.model.header_names import is_reserved
from metier.sandbox.egress_limits import EgressLimits

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
WEBDAV: Final = frozenset({"PROPFIND", "REPORT"})
"""Beside those, for a service of the operator's own: calendars are read with them."""
REPEATABLE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Sent again when an answer was lost. Any other may have been done already, and was approved once."""
MOST_RECEIVED: Final = 200
"""Header lines a server may send. Their size is bounded by the HTTP library, at 100 KiB."""

_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
_VALUE: Final = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
_FOLLOWS: Final = frozenset(
    {"accept", "accept-language", "user-agent", "range", "content-type", "content-language"}
)
_OF_A_BODY: Final = ("content-",)

Lines = list[tuple[str, str]]


def check_lines(headers: Mapping[str, str], secret_names: Iterable[str], limits: EgressLimits) -> str | None:
    """What is wrong with the header lines a skill asks for; None when they may go out."""
    names = [*headers, *secret_names]
    lower = [name.lower() for name in names]
    if len(names) > limits.headers:
        return f"there are {len(names)} header lines, more than {limits.headers}"
    if sum(map(len, (*names, *headers.values()))) > limits.header_bytes:
        return f"the header lines are longer than {limits.header_bytes} bytes together"
    for name in names:
        if not _NAME.fullmatch(name):
            return f"{name[:128]!r} is not the name of a header line"
        if is_reserved(name):
            return f"the header line {name!r} is not for a skill to set"
    if len(set(lower)) != len(lower):
        return "a header line is given twice"
    for name, value in headers.items():
        if name.lower() == "cookie":
            return "cookies can be sent only as a secret"
        if not fit_value(value):
            return (
                f"the value of the header line {name!r} holds a line end, a control or a non-ASCII character"
            )
    return None


def fit_value(value: str) -> bool:
    """Whether `value` can stand in a header line as it is."""
    return _VALUE.fullmatch(value) is not None


def lines_that_follow(lines: Lines, *, same_origin: bool, with_body: bool) -> Lines:
    """The lines that go along on a redirect. To another origin only harmless ones go, whatever they are called."""
    return [
        (name, value)
        for name, value in lines
        if (same_origin or name.lower() in _FOLLOWS)
        and (with_body or not name.lower().startswith(_OF_A_BODY))
    ]


def received(raw: Iterable[tuple[bytes, bytes]], *, unpacked: bool) -> tuple[tuple[str, str], ...]:
    """What a server sent, as text. After unpacking the lines that describe the packed body would be untrue."""
    lines = ((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw)
    return tuple(
        (name, value)
        for name, value in lines
        if not (unpacked and name in ("content-encoding", "content-length"))
    )


def joined(raw: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    """What all lines with that lower-case name say together."""
    return ", ".join(value.decode("latin-1") for name, value in raw if name.lower() == wanted)


def first(raw: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """The value of the first line with that lower-case name."""
    return next((value.decode("latin-1") for name, value in raw if name.lower() == wanted), None)
