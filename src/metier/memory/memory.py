"""One file of the memory folder into one memory. No input makes it raise.

JSON: an object with `content` (or `text`, `body`, `message`, `summary`); `id`, `timestamp`, `title`, `tags`, `entities` where
they are; anything else is tolerated. Markdown: the text, with the same fields in a frontmatter where there is one.

A memory is private when it says so in any way it could: `private` that is not false, `privacy` that is not public, `public` that is
false, anywhere in its fields. What says nothing (null, an empty text) is no yes. A file whose fields cannot be read is no memory at
all, because it may have said so; nor is one that says so in a place that is not read as a field.
"""

import os
import re
import unicodedata
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from metier.dialects import frontmatter
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json

MOST_BYTES: Final = 1_048_576
ENDINGS: Final = (".json", ".md", ".markdown")
_TEXTS: Final = ("content", "text", "body", "message", "summary", "response")
_TIMES: Final = ("timestamp", "date", "created", "created_at", "createdAt")
_SAYING: Final = frozenset({"private", "isprivate", "privacy", "visibility", "public"})
_NOTHING: Final = frozenset({"", "none", "null", "~"})
_NO: Final = frozenset({"false", "no", "off", "0"})
_SAYS: Final = re.compile(
    r"(?:^[^\w#\n]*|[{,]\s*[\"']?)(?:is[_-]?)?(private|privacy|visibility|public)[\"']?[^\S\n]*[:=]",
    re.IGNORECASE | re.MULTILINE,
)
_SAID: Final = re.compile(r"([^,}\n]*)(?:\n[^\S\n]*(true|yes|on|1)\b)?", re.IGNORECASE)
"""What follows it: on its line, or alone on the next."""
_HEAD: Final = re.compile(r"\s*(?:-{3,}|\+{3,}|;{3,}|`{3,}|~{3,}|\{|<!--)")
_HEAD_ENDS: Final = 4_000
"""Characters within which something that only looks like a head is looked through."""
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_MOST_TAGS: Final = 64
_LONGEST_FIELD: Final = 200


@final
class Memory(Struct, frozen=True, kw_only=True):
    """What one file says."""

    id: str
    title: str
    text: str
    timestamp: str
    tags: tuple[str, ...]
    entities: tuple[str, ...]
    private: bool


def read(data: bytes, path: str) -> Memory | Diagnostic:
    """The memory that the bytes of the file at `path` hold, or why they hold none."""
    if path.lower().endswith(".json"):
        try:
            fields = strictjson.loads(data.removeprefix(b"\xef\xbb\xbf"), most=MOST_BYTES)
        except ValueError as error:
            return _error("bad_json", f"it is no strict JSON: {error}")
        if not isinstance(fields, dict):
            return _error("not_an_object", "it is JSON, but no object; write one memory a file, as { … }")
        texts = [value for key in _TEXTS if isinstance(value := fields.get(key), str) and value.strip()]
        return _memory(fields, "\n\n".join(texts), path)
    found = frontmatter.read(data)
    fields = found.fields
    if fields is None:
        problem = found.diagnostics[0]
        if problem.code != "no_frontmatter":
            return problem
        fields = {}
    text = frontmatter.body(data)
    # A head that had to be repaired, a quote that was not closed, a second head: what stands there was not read as a field.
    said = len(_SAYS.findall(found.block)) > len([*_said(fields)])
    if said or (_HEAD.match(text) and _may_be_private(text[:_HEAD_ENDS])):
        return _error(
            "unclear_head",
            "it may call itself private in a place that is not read; write its fields as YAML between two --- lines at the top",
        )
    return _memory(fields, text, path)


def is_private(fields: dict[str, Json]) -> bool:
    """Whether a memory with these fields is to be hidden. Whatever is not plainly a no is a yes."""
    for name, value in _said(fields):
        plain = str(value).strip().casefold()
        if value is None or plain in _NOTHING:
            continue
        if name == "public":
            if plain in _NO:
                return True
        elif plain not in _NO and plain != "public":
            return True
    return False


def _may_be_private(text: str) -> bool:
    """Whether a line of it would make a memory private if it were a field. Code and notes may use the same words."""
    for found in _SAYS.finditer(text):
        after = _SAID.match(text, found.end())
        value, below = (after[1].strip(" \t\r\"'`;"), after[2]) if after else ("", None)
        name = found[1].casefold()
        if name == "public":  # a remark may stand behind it
            value = re.split(r"\W", value, maxsplit=1)[0]
        if is_private({name: value or (below if name != "public" else None)}):
            return True
    return False


def _said(fields: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    """What the fields say of who may see it, at any depth."""
    waiting: list[Json] = [fields]
    while waiting:
        match waiting.pop():
            case dict() as inner:
                yield from ((name, value) for key, value in inner.items() if (name := _name(key)) in _SAYING)
                waiting += inner.values()
            case list() as inner:
                waiting += inner
            case _:
                pass


def _memory(fields: dict[str, Json], text: str, path: str) -> Memory | Diagnostic:
    if not text.strip():
        return _error("no_text", f"there is no text in it; write some, in JSON as `{_TEXTS[0]}`")
    heading = _HEADING.search(text[:2000])
    stem = os.path.splitext(os.path.basename(path))[0]
    return Memory(
        id=_line(fields.get("id")) or stem,
        title=_line(fields.get("title")) or (_line(heading[1]) if heading else ""),
        text=text.strip(),
        timestamp=next((found for key in _TIMES if (found := _line(fields.get(key)))), ""),
        tags=_names(fields.get("tags")),
        entities=_names(fields.get("entities")),
        private=is_private(fields),
    )


def _names(value: Json) -> tuple[str, ...]:
    """The names in a list of texts or of objects with a `name`; a text alone counts as a list with commas."""
    if isinstance(value, str):
        value = [*value.split(",")]
    if not isinstance(value, list):
        return ()
    lines = (_line(each.get("name") if isinstance(each, dict) else each) for each in value[:_MOST_TAGS])
    return tuple(line for line in lines if line)


def _line(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return " ".join(str(value).split())[:_LONGEST_FIELD]


def _name(text: str) -> str:
    """Its letters and digits: what cannot be seen, and how they are joined, makes no other name."""
    return "".join(each for each in unicodedata.normalize("NFKC", text).casefold() if each.isalnum())


def _error(code: str, message: str) -> Diagnostic:
    return Diagnostic(code=code, severity="error", message=message)
