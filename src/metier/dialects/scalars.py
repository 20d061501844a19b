"""How a written value becomes text, a list or a yes or no: the same way OpenClaw turns it.

Authors write for OpenClaw, so `name: 1.10`, `bins: jq, curl` and `user-invocable: "off"` must mean here what
they mean there. That includes JavaScript's idea of white space and of how a number is spelled.
"""

from collections.abc import Iterable
from typing import Final

from metier.model.digest import Json

SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""What JavaScript trims; Python's `strip` differs in six characters."""

MAX_SAFE: Final = 2**53 - 1
_YES: Final = frozenset({"true", "1", "yes", "on"})
_NO: Final = frozenset({"false", "0", "no", "off"})


def unquoted(text: str) -> str:
    """`text` without the pair of equal quotes around it, if there is one."""
    return text[1:-1] if text[:1] in ('"', "'") and text[-1:] == text[:1] else text


def number_text(value: float) -> str:
    """A number as JavaScript spells it: `1.0` is `1`, and exponents begin at 10^21."""
    if isinstance(value, int):
        if -MAX_SAFE <= value <= MAX_SAFE:
            return str(value)
        if value.bit_length() > 1024:
            return "Infinity" if value > 0 else "-Infinity"
        value = float(value)
    if value != value:
        return "NaN"
    if not value:
        return "0"
    sign, value = ("-", -value) if value < 0 else ("", value)
    if value == float("inf"):
        return sign + "Infinity"
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    written = (whole + fraction).rstrip("0")
    digits = written.lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(written) - len(digits))
    if not -6 < point <= 21:
        tail = "." + digits[1:] if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    if point <= 0:
        return sign + "0." + "0" * -point + digits
    if point >= len(digits):
        return sign + digits.ljust(point, "0")
    return sign + digits[:point] + "." + digits[point:]


def text(value: Json) -> str:
    """Any JSON value as one string, the way JavaScript's `String()` does it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number_text(value)
    if isinstance(value, list):
        return ",".join("" if item is None else text(item) for item in value)
    return "[object Object]"


def strings(value: Json) -> list[str]:
    """A list, or a text with commas, as trimmed non-empty strings; anything else is no list at all."""
    if isinstance(value, list):
        return _filled(item if isinstance(item, str) else text(item) for item in value)
    if isinstance(value, str):
        return _filled(value.split(","))
    return []


def _filled(items: Iterable[str]) -> list[str]:
    return [trimmed for item in items if (trimmed := item.strip(SPACE))]


def boolean(value: Json) -> bool | None:
    """Yes, no, or None when the value says neither."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str | int | float):
        spelled = text(value).strip(SPACE).lower()
        return True if spelled in _YES else False if spelled in _NO else None
    return None
