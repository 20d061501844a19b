"""TOML from outside: a configuration, rules, a client's file. What it would cost is bounded before it is parsed.

The parser of the standard library keeps every beginning of a dotted key, so one key of many parts, a few kilobytes, costs gigabytes.
What nobody writes by hand is found by one pass over the text, in which strings and comments are passed over.
"""

import re
from typing import Any, Final

MAX_PARTS: Final = 32
"""Of one key: `a.b.c` has three."""
MAX_DEPTH: Final = 64
"""Of lists and tables in one another, each key counted with all its parts."""
MAX_KEYS: Final = 100_000
"""Keys, their parts, lists and tables of one text together. Each costs some hundred bytes, whatever its length."""
MAX_WORD: Final = 1_000
"""Characters of a number, or of a key without quotes. A larger number is one that Python does not write out again."""

# As the parser reads them: a text in three quotes may end with one or two more, which are its own. None is ever looked for twice: one
# that does not end goes to the end of its line, or of the text, and the parser says so.
_TOKEN: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+(?:"{3,5})?+'
    r"|'''(?:[^']++|'{1,2}(?!'))*+(?:'{3,5})?+"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?+'
    r"|'[^'\n]*+'?+"
    r"|\#[^\n]*+"
    r"|(?P<word>[A-Za-z0-9_+-]++)"
    r"|(?P<sign>[.,=\[\]{}\n])",
    re.DOTALL,
)
_PLACE: Final = re.compile(r" \(at line (\d+), column \d+\)$")


class TomlError(ValueError):
    """It cannot be read, or is more than we read."""

    def __init__(self, message: str, *, line: int = 0, remedy: str = "Correct that line") -> None:
        super().__init__(message)
        self.line: int = line
        """0 when nobody can say."""
        self.remedy: str = remedy


def loads(text: str | bytes) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        TomlError: for bad syntax, bad UTF-8, and for what is beyond one of the bounds above. It says what, and where.
    """
    import tomllib  # most installations have no file to parse

    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise TomlError(
                f"byte {error.start} is not UTF-8",
                line=text.count(b"\n", 0, error.start) + 1,
                remedy="Save it as UTF-8",
            ) from None
    _bounded(text)
    try:
        return tomllib.loads(text)
    except RecursionError:  # not within these bounds, unless whoever calls is far down already
        raise TomlError("it is nested too deeply", remedy="Write it flat") from None
    except ValueError as error:  # also a number that Python does not take
        said = str(error)
        place = _PLACE.search(said)
        at_end = said.endswith(" (at end of document)")
        line = int(place[1]) if place else text.count("\n") + 1 if at_end else 0
        raise TomlError(f"not valid TOML: {said}", line=line) from None


def _bounded(text: str) -> None:
    """Refuse what would cost too much to parse, or to go through afterwards. One pass, and little memory."""
    outer: list[int] = []
    depth = parts = keys = 0
    for token in _TOKEN.finditer(text):
        word = token["word"]
        if word is not None:
            if len(word) > MAX_WORD:
                raise _too_much(text, token, f"a key or number has more than {MAX_WORD:,} characters")
            continue
        match token["sign"]:
            case ".":
                parts += 1
            case "[" | "{":
                outer.append(depth)
                depth += parts + 1
                parts = 0
            case "]" | "}":
                depth = outer.pop() if outer else 0
                parts = 0
                continue
            case "," | "\n":
                parts = 0
                continue
            case "=":
                pass
            case _:
                continue
        keys += 1
        if parts >= MAX_PARTS:
            raise _too_much(text, token, f"a key has more than {MAX_PARTS} parts")
        if depth > MAX_DEPTH:
            raise _too_much(text, token, "it is nested too deeply")
        if keys > MAX_KEYS:
            raise _too_much(text, token, f"there are more than {MAX_KEYS:,} keys, lists and tables")


def _too_much(text: str, token: re.Match[str], what: str) -> TomlError:
    line = text.count("\n", 0, token.start()) + 1
    return TomlError(f"{what} (at line {line})", line=line, remedy="Write it flatter, and less of it")
