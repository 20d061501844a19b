"""The one reader: bytes of a SKILL.md in, fields and diagnostics out. No input makes it raise.

A byte order mark and foreign line ends are understood, a fence counts only on a line of its own, and text that
is not UTF-8 is refused with the place. `read` and `body` split a file by the same rule, so what is shown as
instructions can never have been read as a field.
"""

import re
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.dialects import scalars
from metier.dialects.ladder import climb
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json

MAX_BYTES: Final = 1_048_576
MAX_BLOCK: Final = 256_000
"""As much as OpenClaw takes of a whole file. Structure costs up to a hundred times its bytes; instructions do not."""
_BOM: Final = b"\xef\xbb\xbf"
_FENCE: Final = b"---"
_FIRST_OF_NUMBERS: Final = frozenset("0123456789+-.")
_NUMBER: Final = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_LONGEST_NUMBER: Final = 500


@final
class Document(Struct, frozen=True, kw_only=True):
    """What a file says before its instructions begin."""

    fields: dict[str, Json] | None
    """JSON types only. None when the file was refused; then there is an error among the diagnostics."""
    diagnostics: tuple[Diagnostic, ...] = ()
    block: str = ""
    """The frontmatter as written, with LF line ends."""
    offset: int = 0
    """How many lines of the file come before the block."""

    def line_of(self, key: str) -> int | None:
        """The line of the file on which the top-level field `key` stands."""
        place = self._place(key)
        if place < 0:
            place = self.block.find(key)  # a quoted or indented key
        return None if place < 0 else self.offset + self.block.count("\n", 0, place) + 1

    def raw(self, key: str) -> str | None:
        """The text after `key:` on its own line, or the indented lines below when that is empty."""
        place = self._place(key)
        if place < 0:
            return None
        block = self.block
        start = place + len(key) + 1
        end = block.find("\n", start)
        value = block[start : end if end >= 0 else None].strip(scalars.SPACE)
        if value or block[end + 1 : end + 2] not in (" ", "\t") or end < 0:
            return scalars.unquoted(value)
        below: list[str] = []
        for line in block[end + 1 :].split("\n"):
            if line and line[0] not in " \t":
                break
            below.append(line)
        return "\n".join(below).strip(scalars.SPACE)

    def text(self, key: str) -> str:
        """The field as one trimmed string; empty when there is none."""
        value = self.fields.get(key) if self.fields is not None else None
        if type(value) is str:
            if value[:1] in _FIRST_OF_NUMBERS and self._is_number(key, value):
                return scalars.number_text(float(value))
            return value.strip(scalars.SPACE)
        if value is None:
            return self.raw(key) or ""
        if isinstance(value, dict | list):
            inline = self.inline(key)
            return msgspec.json.encode(value).decode() if inline is None else inline
        return scalars.text(value)

    def inline(self, key: str) -> str | None:
        """A map or list as it stands on the line of its key, provided a colon shows that it begins there."""
        raw = self.raw(key)
        return raw if raw and ":" in self._rest_of_line(key) else None

    def _is_number(self, key: str, value: str) -> bool:
        """Whether a number stands there that the parser takes for text: zeros in front, or beyond every range."""
        if len(value) > _LONGEST_NUMBER or not re.fullmatch(_NUMBER, value):
            return False
        bare = rf"(?m)^[ \t]*([\"']?){re.escape(key)}\1[ \t]*:[ \t]*{re.escape(value)}[ \t]*(?:[ \t]#.*)?$"
        return re.search(bare, self.block) is not None

    def _rest_of_line(self, key: str) -> str:
        start = self._place(key) + len(key) + 1
        end = self.block.find("\n", start)
        return self.block[start : end if end >= 0 else None]

    def _place(self, key: str) -> int:
        head = key + ":"
        if self.block.startswith(head):
            return 0
        found = self.block.find("\n" + head)
        return found + 1 if found >= 0 else -1


def read(data: bytes) -> Document:
    """The frontmatter of a file."""
    if len(data) > MAX_BYTES:
        return _refused(
            "too_large",
            f"the file has {len(data)} bytes and {MAX_BYTES} are the most; move parts of it to references/",
        )
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = _normal(data[: error.start]).count(b"\n") + 1
            reason = f"byte {error.start} (line {line}) is not UTF-8; save the file as UTF-8"
            return _refused("not_utf8", reason, line)
    data = _normal(data)
    found = _fences(data)
    if found is None:
        return _refused(
            "no_frontmatter",
            "the file does not begin with a --- line; start it with ---, name, description and --- again",
            1,
        )
    begin, end, _ = found
    offset = data.count(b"\n", 0, begin)
    if end < 0:
        reason = "the frontmatter is opened here and never closed; put a line of three hyphens after its last field"
        return _refused("unterminated", reason, offset)
    if end - begin > MAX_BLOCK:
        reason = (
            f"the frontmatter has {end - begin} bytes and {MAX_BLOCK} are the most; move data to another file"
        )
        return _refused("too_large", reason, offset)
    block = data[begin:end].decode()
    fields, diagnostics = climb(block, offset)
    if offset > 1:
        message = (
            "there are blank lines before the opening ---; OpenClaw does not load such a file, remove them"
        )
        diagnostics = (
            Diagnostic(code="late_fence", severity="warning", message=message, line=1),
            *diagnostics,
        )
    return Document(fields=fields, diagnostics=diagnostics, block=block, offset=offset)


def body(data: bytes) -> str:
    """The instructions: everything after the frontmatter, without blank lines around it."""
    data = _normal(data)
    found = _fences(data)
    text = data[found[2] if found is not None and found[1] >= 0 else 0 :].decode(errors="replace").rstrip()
    start = len(text) - len(text.lstrip())
    return text[text.rfind("\n", 0, start) + 1 :]


def _normal(data: bytes) -> bytes:
    """Without a byte order mark, and with LF line ends."""
    if data.startswith(_BOM):
        data = data[3:]
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return data


def _fences(data: bytes) -> tuple[int, int, int] | None:
    """Where the block begins and ends and the body begins; an end of -1 when the closing fence is missing."""
    start = 0
    if not data.startswith(_FENCE):
        first = len(data) - len(data.lstrip(b" \t\n\v\f"))
        start = data.rfind(b"\n", 0, first) + 1
        if not data.startswith(_FENCE, start):
            return None
    at = data.find(b"\n", start)
    if at < 0 or not _blank(data[start + 3 : at]):
        return None
    begin = at + 1
    while (at := data.find(b"\n---", at)) >= 0:
        after = at + 4
        stop = data.find(b"\n", after)
        if stop < 0:
            stop = len(data)
        if stop == after or _blank(data[after:stop]):
            return begin, at + 1, min(stop + 1, len(data))
        at = after
    return begin, -1, len(data)


def _blank(rest: bytes) -> bool:
    """Whether nothing but white space follows a fence."""
    return not rest.strip() or (not rest.isascii() and not rest.decode(errors="replace").strip(scalars.SPACE))


def _refused(code: str, message: str, line: int | None = None) -> Document:
    return Document(
        fields=None, diagnostics=(Diagnostic(code=code, severity="error", message=message, line=line),)
    )
