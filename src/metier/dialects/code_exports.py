"""Which names a JavaScript or TypeScript text exports, without running it: a guess by its look, for choosing what to run.

Comments, strings, templates and everything inside braces are left out first, so that text about code is not taken for code.
Whether the file really works is found out by running it in a sandbox.
"""

import re
from typing import Final

MAX_BYTES: Final = 262_144
_LONGEST_PATTERN: Final = 200
"""A slash that begins no pattern must not have the rest of the file looked at for its end."""
_MOST_IN_VAIN: Final = 1_000
"""Nor may many of them: code written by hand has few, and every listing of an unknown folder pays for the rest."""

_NAME: Final = r"[A-Za-z_$][\w$]*"
_TOKEN: Final = re.compile(r"//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|[\"'`{}/]")
_QUOTED: Final = {
    '"': re.compile(r'"(?:\\[\s\S]|[^"\\\n])*"?'),
    "'": re.compile(r"'(?:\\[\s\S]|[^'\\\n])*'?"),
}
_TEMPLATE: Final = re.compile(r"\\[\s\S]|`|\$\{")
_PATTERN: Final = re.compile(r"/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/")
_BEFORE_PATTERN: Final = re.compile(r"(?:^|[=(\[,:;!&|?{}+\-*%~^<>\n]|\b(?:return|typeof|case|in|of))\s*$")
_LISTED: Final = re.compile(r"(?:(?<![\w$.])export|(?<![\w$.])module\.exports\s*=)\s*$")
_DECLARED: Final = re.compile(
    rf"(?<![\w$.])export\s+(?:(?:const|let|var|class)\s+|(?:async\s+)?function\b\s*\*?\s*)({_NAME})"
)
_ASSIGNED: Final = re.compile(rf"(?<![\w$.])(?:module\.)?exports\.({_NAME})\s*=(?!=)")
_LIST: Final = re.compile(r"(?<![\w$.])(?:export|module\.exports\s*=)\s*\{([^{}]*)\}(?!\s*from\b)")
_ITEM: Final = re.compile(rf"\s*(?:{_NAME}\s+as\s+|async\s+)?({_NAME})\s*(?:[:(]|$)")


def exported(data: bytes) -> frozenset[str]:
    """The names; none for what is too large or not UTF-8."""
    if len(data) > MAX_BYTES or b"export" not in data:
        return frozenset()
    try:
        code = _outline(data.decode())
    except UnicodeDecodeError:
        return frozenset()
    names = {*_DECLARED.findall(code), *_ASSIGNED.findall(code)}
    for listed in _LIST.findall(code):
        names.update(found[1] for item in listed.split(",") if (found := _ITEM.match(item)))
    return frozenset(names)


def _outline(text: str) -> str:
    """The code outside all braces, with the braces of a list of exports and what stands directly in them."""
    kept: list[str] = []
    depth = 0
    listing = False
    templates: list[int] = []  # the depth at which each open template goes on
    at = in_vain = 0
    while found := _TOKEN.search(text, at):
        if depth == 0 or (listing and depth == 1):
            kept.append(text[at : found.start()])
        sign, at = found[0], found.end()
        if sign in _QUOTED:
            at = _end(_QUOTED[sign], text, found.start())
            kept.append("''" if depth == 0 else "")
        elif sign == "/":
            if in_vain < _MOST_IN_VAIN and _BEFORE_PATTERN.search(text, max(at - 41, 0), at - 1):
                at = _end(_PATTERN, text, found.start(), _LONGEST_PATTERN)
                in_vain += at == found.end()
        elif sign == "{":
            listing = _LISTED.search("".join(kept[-3:])[-60:]) is not None if depth == 0 else listing
            kept.append("{" if depth == 0 else "")
            depth += 1
        elif sign == "}" and templates and templates[-1] == depth:
            depth, at = _template(text, at, templates.pop() - 1, templates)
        elif sign == "}":
            depth = max(depth - 1, 0)
            kept.append("}" if depth == 0 else "")
        elif sign == "`":
            depth, at = _template(text, at, depth, templates)
        else:
            kept.append(" ")  # a comment parts two words
    if depth == 0:
        kept.append(text[at:])
    return "".join(kept)


def _template(text: str, at: int, depth: int, templates: list[int]) -> tuple[int, int]:
    """The depth and place at which code goes on: after the template, or in one of its insertions."""
    while found := _TEMPLATE.search(text, at):
        at = found.end()
        if found[0] == "`":
            return depth, at
        if found[0] == "${":
            templates.append(depth + 1)
            return depth + 1, at
    return depth, len(text)


def _end(pattern: re.Pattern[str], text: str, start: int, longest: int = MAX_BYTES) -> int:
    found = pattern.match(text, start, start + longest)
    return found.end() if found else start + 1
