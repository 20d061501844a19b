"""Three ways to read a block of frontmatter, each only when the one before it failed.

1. as YAML; 2. as YAML after quoting the values that broke it; 3. line by line. What was refused for safety (depth,
repetition, a key given twice, tags, anchors) ends the ladder: a more lenient rung must not let it in.
"""

import re
from typing import Final, final

import msgspec
from msgspec import Struct

from metier.dialects import scalars
from metier.dialects.strict_yaml import Trouble, load
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.text import one_line

MOST_REPAIRS: Final = 1_000
"""More broken values than this is not a slip of the pen, and trying them one by one costs time."""
_SHOWN: Final = 10

_NESTED: Final = r"([ \t]+(?:- +)?[\w-]+:[ \t]+)([^\s|>\"'#].*)$"
_BLOCK_SCALAR: Final = r"[|>](?:[1-9][+-]?|[+-][1-9]?)?(?:[ \t]+#.*)?"
_LINE: Final = r"([A-Za-z0-9_-]+):(.*)$"


@final
class _Repair(Struct, frozen=True):
    line: int
    key: str
    reason: str


def climb(block: str, offset: int) -> tuple[dict[str, Json] | None, tuple[Diagnostic, ...]]:
    """The fields of `block`, or None; `offset` is how many lines of the file come before it."""
    tree, notes = load(block)
    if isinstance(tree, dict):
        return tree, _noted(notes, offset) if notes else ()
    if tree.final:
        return None, (_error(tree, offset),)
    mended = _repaired(block)
    if isinstance(mended, Trouble):
        return None, (_error(mended, offset),)
    text, repairs = mended
    again, notes = load(text) if repairs else (tree, [])
    if isinstance(again, Trouble) and again.final:
        return None, (_error(again, offset),)
    if isinstance(again, dict) and again.get("description"):
        return again, (*_noted(notes, offset), *_repair_notes(repairs, offset))
    lines = _by_lines(block)
    if isinstance(lines, Trouble):
        return None, (_error(lines, offset),)
    if lines.get("description"):
        return lines, (_fallback_note(tree, offset),)
    if isinstance(again, dict):
        return again, (*_noted(notes, offset), *_repair_notes(repairs, offset))
    return None, (_error(tree, offset),)


def _repaired(block: str) -> tuple[str, list[_Repair]] | Trouble:
    """Rung 2: every entry that is not YAML on its own, quoted. The rest is left exactly as it is."""
    lines = block.split("\n")
    repairs: list[_Repair] = []
    starts = [at for at, line in enumerate(lines) if _entry(line) is not None]
    if len(starts) > MOST_REPAIRS:
        return "", []
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        trouble, _ = load("\n".join(lines[start:end]) + "\n")
        if isinstance(trouble, dict):
            continue
        if trouble.final:
            return trouble.moved(start)
        key = _quote(lines, start, end) or _quote_nested(lines, start, end)
        if key:
            repairs.append(_Repair(start, key, trouble.message))
    return "\n".join(lines), repairs


def _entry(line: str) -> tuple[str, str] | None:
    """Key and rest of a line that begins an entry at the margin."""
    first = line[:1]
    if not first or first in " \t#-[]{},&*!|>%@`:":
        return None
    at = line.find(first, 1) + 1 if first in "\"'" else 0
    colon = re.search(r":(?=[ \t]|$)", line[at:])
    if colon is None:
        return None
    key = line[: at + colon.start()].rstrip(" \t")
    if " #" in key or (at and len(key) != at):
        return None
    return key[1:-1] if at else key, line[at + colon.end() :].strip(scalars.SPACE)


def _quote(lines: list[str], start: int, end: int) -> str:
    """Put the whole value of one entry into quotes; the key, or nothing where there is no text to quote."""
    entry = _entry(lines[start])
    if entry is None or not entry[1] or re.fullmatch(_BLOCK_SCALAR, entry[1]):
        return ""
    key, value = entry
    parts = [value]
    for line in (line.strip(scalars.SPACE) for line in lines[start + 1 : end]):
        if line == ":" or line.startswith(": "):
            break  # an entry without a key, which is nobody's
        if line and not line.startswith("#"):
            parts.append(line)
    whole = scalars.unquoted(" ".join(parts))
    lines[start:end] = [f"{_json(key)}: {_json(whole)}", *[""] * (end - start - 1)]
    return key


def _quote_nested(lines: list[str], start: int, end: int) -> str:
    """Quote the plain values below an entry that hold a colon or begin with a sign YAML keeps for itself."""
    changed = False
    for at in range(start + 1, end):
        found = re.match(_NESTED, lines[at])
        value = found[2].rstrip(scalars.SPACE) if found else ""
        if found and value and (": " in value or value.endswith(":") or value[0] in "*&!%@`,[{?"):
            if value[0] in "[{" and isinstance(load(f"v: {value}\n")[0], dict):
                continue
            lines[at] = found[1] + _json(value)
            changed = True
    return lines[start].partition(":")[0].strip() if changed else ""


def _by_lines(block: str) -> dict[str, Json] | Trouble:
    """Rung 3: `key: value` lines at the margin, each with what stands below it; YAML where that much is YAML."""
    fields: dict[str, Json] = {}
    lines = block.split("\n")
    starts = [at for at, line in enumerate(lines) if line and re.match(_LINE, line)]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=False):
        tree, _ = load("\n".join(lines[start:end]) + "\n") if len(starts) <= MOST_REPAIRS else ({}, [])
        if isinstance(tree, Trouble) and tree.final:
            return tree.moved(start)
        entry = tree if isinstance(tree, dict) and tree else _as_text(lines[start:end])
        for key, value in entry.items():
            if key in fields:
                return Trouble.twice(key, start + 1)
            fields[key] = value
    return fields


def _as_text(lines: list[str]) -> dict[str, Json]:
    """One entry as plain text."""
    found = re.match(_LINE, lines[0])
    if not found:
        return {}
    head = found[2].strip(scalars.SPACE)
    joint = "\n" if head.startswith("|") else " "
    if re.fullmatch(_BLOCK_SCALAR, head):
        head = ""
    below = (line.strip(scalars.SPACE) for line in lines[1:] if line[:1] in (" ", "\t"))
    whole = scalars.unquoted(joint.join(part for part in (head, *below) if part))
    return {found[1]: whole} if whole else {}


def _json(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _error(trouble: Trouble, offset: int) -> Diagnostic:
    message = trouble.message
    if trouble.code == "yaml_invalid":
        message = f"the frontmatter cannot be read: {message}; correct it from this line on"
    return Diagnostic(code=trouble.code, severity="error", message=message, line=(trouble.line or 1) + offset)


def _noted(notes: list[Trouble], offset: int) -> tuple[Diagnostic, ...]:
    return tuple(msgspec.structs.replace(_error(note, offset), severity="warning") for note in notes)


def _repair_notes(repairs: list[_Repair], offset: int) -> tuple[Diagnostic, ...]:
    shown = [
        Diagnostic(
            code="yaml_repaired",
            severity="warning",
            message=f'"{one_line(each.key, 60)}" was read as plain text, because {each.reason}; put it in quotes',
            line=offset + each.line + 1,
        )
        for each in repairs[:_SHOWN]
    ]
    if len(repairs) > _SHOWN:
        message = f"{len(repairs) - _SHOWN} more values were read as plain text; put them in quotes"
        shown.append(Diagnostic(code="yaml_repaired", severity="warning", message=message))
    return tuple(shown)


def _fallback_note(trouble: Trouble, offset: int) -> Diagnostic:
    return Diagnostic(
        code="yaml_by_lines",
        severity="warning",
        message=f"read line by line, and what is broken as plain text, because {trouble.message}",
        line=None if trouble.line is None else trouble.line + offset,
    )
