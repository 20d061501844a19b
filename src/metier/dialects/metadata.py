"""The `metadata` field: a YAML map, or JSON, or JSON5 in one line or in quotes.

OpenClaw reads a map that begins on the line of its key from that line alone, as JSON or JSON5. A map that is
only YAML there is no metadata to it, so the same file would mean two things to two programs. What OpenClaw
sees is what counts; what it does not see is said.
"""

import re
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.dialects.frontmatter import Document
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json

MAX_DEPTH: Final = 128


@final
class Metadata(Struct, frozen=True):
    """What the field says, and to whom."""

    written: dict[str, Json]
    """As a YAML map, which is how most programs read it; the JSON where it is not YAML."""
    openclaw: dict[str, Json]
    """As OpenClaw reads it; empty when it reads nothing."""
    problem: Diagnostic | None = None


NONE: Final = Metadata({}, {})


def metadata_of(document: Document, watched: frozenset[str]) -> Metadata:
    """The metadata of a file. Only maps with a `watched` key are worth the second look OpenClaw's rule needs."""
    value = document.fields.get("metadata") if document.fields else None
    if isinstance(value, dict):
        if watched.isdisjoint(value):
            return Metadata(value, {})
        line = document.inline("metadata")
        if line is None:
            return Metadata(value, value)
        found = _json(line, known=value)
        if isinstance(found, dict):
            return Metadata(found, found)
        if found is _TWICE:
            return _given_twice(document)
        message = (
            "metadata begins on this line but is neither JSON nor JSON5 up to the end of it, so OpenClaw ignores it and"
            " so does Metier; write it as strict JSON on one line, or as an indented map below"
        )
        return Metadata(value, {}, _problem(document, "metadata_ignored", "warning", message))
    if isinstance(value, str) and value.strip():
        return _from_text(document, value)
    if value is None or value == "":
        return NONE
    message = "metadata is neither a map nor JSON, so it is ignored; write an indented map"
    return Metadata({}, {}, _problem(document, "metadata_ignored", "warning", message))


def _from_text(document: Document, value: str) -> Metadata:
    found = _json(value)
    if isinstance(found, dict):
        return Metadata(found, found)
    if found is _TWICE:
        return _given_twice(document)
    message = "metadata is text and no JSON object, so it is ignored; write an indented map or JSON"
    return Metadata({}, {}, _problem(document, "metadata_ignored", "warning", message))


def _given_twice(document: Document) -> Metadata:
    message = "metadata gives one of its keys twice; which one counts cannot be known, remove one"
    return Metadata({}, {}, _problem(document, "duplicate_key", "error", message))


def _problem(document: Document, code: str, severity: str, message: str) -> Diagnostic:
    return Diagnostic(
        code=code,
        severity="error" if severity == "error" else "warning",
        message=message,
        line=document.line_of("metadata"),
    )


_TWICE: Final = "a key is given twice"


def _json(text: str, known: dict[str, Json] | None = None) -> Json:
    """JSON, else JSON5, else None; `_TWICE` when a key hides another. `known` is what YAML, which looks for that, read."""
    try:
        found: Json = msgspec.json.decode(text)
        if found == known:
            return _safe(found, MAX_DEPTH)
    except (ValueError, RecursionError):
        import pyjson5  # one file in a hundred needs it

        try:
            found = pyjson5.decode(text, MAX_DEPTH)
        except (pyjson5.Json5Exception, ValueError, RecursionError):
            return None
    try:
        safe = _safe(found, MAX_DEPTH)
    except RecursionError:
        return None
    return safe if _keys_kept(found) == _keys_written(text) else _TWICE


_NOT_STRUCTURE: Final = (
    r'"(?:\\[\s\S]|[^"\\])*"'
    r"|'(?:\\[\s\S]|[^'\\])*'"
    r"|//[^\n\r\u2028\u2029]*"
    r"|/\*[\s\S]*?\*/"
)
"""Strings and comments of JSON5. Outside of them a colon stands after a key and nowhere else."""


def _keys_written(text: str) -> int:
    return re.sub(_NOT_STRUCTURE, "", text).count(":")


def _keys_kept(value: Json) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_keys_kept, value.values()))
    return sum(map(_keys_kept, value)) if isinstance(value, list) else 0


def _safe(value: Json, depth: int) -> Json:
    """The same without what cannot be stored or shown: half characters and endless numbers."""
    if not depth:
        raise RecursionError
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_safe(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {str(_safe(key, 1)): _safe(item, depth - 1) for key, item in value.items()}
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 63:
        value = float(value) if value.bit_length() < 1024 else float("inf")
    return None if isinstance(value, float) and value - value != 0 else value
