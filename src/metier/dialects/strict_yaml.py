"""YAML without its traps: JSON types only, every key once, no tags, no anchors, no depth, nothing raised.

The parser underneath follows tags and anchors without a word, and stumbles over characters that other YAML
readers take. Both are met by masking: characters are swapped for others before parsing, so it is always the same
parser that decides what is text and what is not. A text with a tag, an anchor or an alias is never given to it.
"""

import re
from typing import Final, Self, final

import msgspec
from msgspec import Struct
from ryaml import loads  # pyright: ignore[reportPrivateImportUsage]

from metier.dialects.scalars import SPACE, text
from metier.dialects.yaml_properties import check_without_aliases, could_hold, first_property
from metier.model.digest import Json
from metier.model.text import one_line

MOST_BRACKETS: Final = 5_000
"""The parser's time grows with the square of their depth, and it looks at the depth only afterwards.

A dash or question mark directly after another opens a level as a bracket does, and is counted with them.
"""
_MASK: Final = 0x100000
_NESTED: Final = r"[-?][ \t]+(?=[-?][ \t])"
_LINE_BREAKS: Final = re.compile("[\x85\u2028\u2029]")
_PRIVATE: Final = "[\U00100000-\U0010ffff]"
_UNREADABLE: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]"
_ESCAPE: Final = (
    r"\\\\|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


@final
class Trouble(Struct, frozen=True, kw_only=True):
    """Why a text is not accepted, or what had to be changed in it."""

    code: str
    message: str
    line: int | None = None
    final: bool = False
    """No more lenient way of reading may be tried."""

    @classmethod
    def twice(cls, key: str, line: int | None) -> Self:
        message = f'"{one_line(key, 60)}" is given twice; which one counts cannot be known, remove one'
        return cls(code="duplicate_key", message=message, line=line, final=True)

    def moved(self, lines: int) -> "Trouble":
        """The same, seen from a text that begins `lines` earlier."""
        return self if self.line is None else msgspec.structs.replace(self, line=self.line + lines)


def load(block: str) -> tuple[dict[str, Json] | Trouble, list[Trouble]]:
    """The map that `block` holds, or what is wrong with it; and what had to be changed on the way."""
    if len(block) > MOST_BRACKETS and _openings(block) > MOST_BRACKETS:
        message = (
            f"the frontmatter holds more than {MOST_BRACKETS} opening brackets or nested dashes;"
            " move the data to another file"
        )
        return Trouble(code="yaml_too_deep", message=message, final=True), []
    try:
        tree = _loaded(block)
    except _Refused as refused:
        return refused.trouble, []
    except ValueError as error:
        return _trouble(block, str(error)), []
    if tree is None:
        return {}, []
    if type(tree) is not dict:
        message = "the frontmatter is not a list of `key: value` lines; write name: and description:"
        return Trouble(code="not_a_map", message=message, line=1), []
    if _is_json(tree) and (block.isascii() or not any(key != key.strip(SPACE) for key in tree)):
        return tree, []
    return _as_json(block, tree)


class _Refused(Exception):
    """What no more lenient way of reading may let in."""

    def __init__(self, trouble: Trouble) -> None:
        self.trouble = trouble


def _openings(block: str) -> int:
    return block.count("[") + block.count("{") + len(re.findall(_NESTED, block))


def _loaded(block: str) -> Json:
    if not block.isascii() and _LINE_BREAKS.search(block):
        return _load_masked(block)
    try:
        return _parsed(block) if could_hold(block) else loads(block)
    except ValueError as error:
        if _trouble(block, str(error)).final:
            raise
        try:
            return _load_masked(block)
        except ValueError:
            raise error from None


def _parsed(block: str) -> Json:
    """What the parser makes of a text that asks it to build, name or repeat nothing."""
    found = first_property(block)
    if found is None:
        return loads(block)
    sign, line = found
    if sign == "*":  # nothing before it has a name, so it is no alias of anything, but text that needs quotes
        raise ValueError(f"a value begins with a bare * at line {line} column 1")
    check_without_aliases(block)
    if sign == "!":
        code, message = (
            "yaml_tag",
            "YAML tags (!…) ask for objects to be built and are refused; remove the tag or quote the text",
        )
    else:
        code, message = (
            "yaml_anchor",
            "YAML anchors and aliases (&… and *…) are not accepted; write the value out or quote the text",
        )
    raise _Refused(Trouble(code=code, message=message, line=line, final=True))


def _load_masked(block: str) -> Json:
    """Parse a text with characters or escapes that the parser refuses although they are harmless."""
    if re.search(_PRIVATE, block):
        raise ValueError("its own private characters could not be told from ours")
    whole = _readable(block)
    return _unmasked(_parsed(whole) if could_hold(whole) else loads(whole))


def _readable(block: str) -> str:
    whole = re.sub(_ESCAPE, _joined, re.sub(r"(?m)^[ \t]+$", "", block))
    return re.sub(_UNREADABLE, lambda found: chr(_MASK + ord(found[0])), whole)


def _joined(found: re.Match[str]) -> str:
    """The character that a pair of escapes stands for; half a pair stands for none."""
    if found[0] == "\\\\":
        return found[0]
    if found[1] is None:
        return "\ufffd"
    return chr(0x10000 + ((int(found[1], 16) - 0xD800) << 10) + int(found[2], 16) - 0xDC00)


def _unmasked(value: Json) -> Json:
    if isinstance(value, str):
        if value.isascii():
            return value
        return re.sub(_PRIVATE, lambda found: chr(ord(found[0]) - _MASK), value)
    if isinstance(value, list):
        return [_unmasked(item) for item in value]
    if isinstance(value, dict):
        return {_unmasked(key): _unmasked(item) for key, item in value.items()}  # pyright: ignore[reportReturnType]
    return value


def _is_json(value: Json) -> bool:
    """Whether nothing but JSON is in there, which is nearly always so."""
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is not str or (type(item) is not str and not _is_json(item)):
                return False
        return True
    if isinstance(value, list):
        return all(type(item) is str or _is_json(item) for item in value)
    return not isinstance(value, float) or value - value == 0


class _GivenTwice(Exception):
    """Two keys of one map are the same once they are text."""


def _as_json(block: str, tree: Json) -> tuple[dict[str, Json] | Trouble, list[Trouble]]:
    """The same with text where JSON has no word for it: keys that are no strings, numbers without end."""
    odd: list[str] = []
    try:
        fields = _plain(tree, odd)
    except _GivenTwice as error:
        return Trouble.twice(str(error), None), []
    if (lost := _overwritten(block, odd)) is not None:
        return Trouble.twice(lost, None), []
    if not odd:
        return (fields if isinstance(fields, dict) else {}), []
    shown = ", ".join(one_line(each, 20) for each in odd[:5])
    message = f"keys and numbers that JSON does not know were read as text ({shown}); put them in quotes"
    return (fields if isinstance(fields, dict) else {}), [Trouble(code="not_json", message=message)]


def _overwritten(block: str, odd: list[str]) -> str | None:
    """A key that may have taken another's place: to the parser's dictionary 1, 1.0 and true are one key."""
    for name, word in (("1", "true"), ("0", "false")):
        spelled = rf"(?mi)(?:^|[\s{{,])(?:{word}|[+-]?0*{name}(?:\.0*)?)[ \t]*:"
        if (name in odd or word in odd) and len(re.findall(spelled, block)) > 1:
            return name
    return None


def _plain(value: Json, odd: list[str]) -> Json:
    if isinstance(value, list):
        return [_plain(item, odd) for item in value]
    if isinstance(value, dict):
        plain: dict[str, Json] = {}
        for key, item in value.items():
            name = text(key).strip(SPACE)
            if type(key) is not str:
                odd.append(name)
            if name in plain:
                raise _GivenTwice(name)
            plain[name] = _plain(item, odd)
        return plain
    if isinstance(value, float) and value - value != 0:
        odd.append(text(value))
        return text(value)
    return value


_FINAL: Final = (
    ("recursion limit", "is nested deeper than 128 levels"),
    ("repetition limit", "repeats itself too often"),
)
_TWICE: Final = r'duplicate entry with key "?(.*?)"?(?: at line (\d{1,9}) column \d{1,9})?$'


def _trouble(block: str, message: str) -> Trouble:
    """What the parser said, in our words where it refused for safety."""
    if twice := re.search(_TWICE, message):
        return Trouble.twice(twice[1], _second_line(block, twice[1]) or (int(twice[2]) if twice[2] else None))
    found = re.search(r"\bat line (\d{1,9})\b", message)
    line = int(found[1]) if found else None
    for said, reason in _FINAL:
        if said in message:
            return Trouble(
                code="yaml_too_deep", message=f"the frontmatter {reason}; make it flat", line=line, final=True
            )
    last = block.count("\n") or 1
    bare = re.sub(r",? (?:while [^,]*? )?at (?:line|position) \d+(?: column \d+)?", "", message[-500:])
    return Trouble(
        code="yaml_invalid",
        message=f"it is not valid YAML ({one_line(bare, 160)})",
        line=None if line is None else min(line, last),
    )


def _second_line(block: str, key: str) -> int | None:
    """Where `key` stands for the second time."""
    at = [n for n, line in enumerate(block.split("\n"), 1) if line.strip(" \t-\"'{").startswith(key)]
    return at[1] if len(at) > 1 else None
