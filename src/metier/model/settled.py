"""The one form of a JSON value: what reading its canonical bytes (RFC 8785) back would give, made without writing them.

Keys are in canonical order, a number without a fraction is an integer (so 1 and 1.0 are one value, and -0.0 is 0),
and every list and object is new: who gave the value cannot change it any more.
"""

import re
from typing import Any, Final, cast

from metier.model.digest import Json
from metier.model.strictjson import MAX_BYTES, MAX_DEPTH, MAX_INTEGER, MAX_VALUES

_REFUSED: Final = re.compile("[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\ud800-\udfff]")
"""C0 but tab and line ends, DEL, and halves of surrogate pairs."""
_REFUSED_UNCLEAN: Final = re.compile("[\u007f\ud800-\udfff]")
_LEAST_EXPONENT: Final = 1e21
"""From here on canonical JSON writes a number with an exponent, and it stays a float."""


def settled(value: Json, *, unclean: bool = False) -> Json:
    """`value` in its one form. With `unclean` texts may hold C0 characters, for one who takes them out next; keys may not.

    Raises:
        ValueError: for what strict JSON cannot hold, more than 32 levels, more than 65,536 values, more than 1 MiB of values
            and text, integers beyond ±(2^53-1), lone surrogates, and control characters other than tab and line ends.
    """
    return _Settling(_REFUSED_UNCLEAN if unclean else _REFUSED).one(value, MAX_DEPTH)


class _Settling:
    __slots__ = ("_left", "_refused", "_values")

    def __init__(self, refused: re.Pattern[str]) -> None:
        self._refused = refused
        # What it takes at the least: too much is refused before it is looked at, and a list that holds itself has no end.
        self._left = MAX_BYTES
        self._values = MAX_VALUES

    def one(self, item: object, levels: int) -> Json:
        kind = type(item)
        if kind is str:
            return self._text(cast("str", item))
        if kind is bool or item is None:
            return cast("bool | None", item)
        if kind is int:
            return _integer(cast("int", item))
        if kind is float:
            return _number(cast("float", item))
        if kind is dict:
            return self._object(cast("dict[Any, Any]", item), levels)
        if kind is list or kind is tuple:
            return self._array(cast("list[Any]", item), levels)
        return self.one(_plain(item), levels)

    def _object(self, given: dict[Any, Any], levels: int) -> dict[str, Json]:
        self._enter(len(given), levels, each=5)  # quotes, colon, comma, and a value
        made: dict[str, Json] = {}
        for key in _in_order(given):
            self._take(len(key))
            if not (key.isascii() and key.isprintable()):
                _allow(key, _REFUSED)
            made[key] = self.one(given[key], levels - 1)
        return made

    def _array(self, given: list[Any], levels: int) -> list[Json]:
        self._enter(len(given), levels, each=2)  # a comma, and a value
        one = self.one
        levels -= 1
        return [one(item, levels) for item in given]

    def _enter(self, many: int, levels: int, *, each: int) -> None:
        if levels <= 0 or (levels == 1 and many):  # what lies in it is a level too
            raise ValueError(f"more than {MAX_DEPTH} levels deep")
        self._take(many * each)
        self._values -= many
        if self._values < 0:
            raise ValueError(f"more than {MAX_VALUES:,} values")

    def _text(self, text: str) -> str:
        self._take(len(text))
        if not (text.isascii() and text.isprintable()):
            _allow(text, self._refused)
        return text

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(f"more than {MAX_BYTES:,} bytes")


def _integer(number: int) -> int:
    if -MAX_INTEGER <= number <= MAX_INTEGER:
        return number
    shown = hex(number) if abs(number) < 2**128 else f"of {number.bit_length()} bits"
    raise ValueError(f"integer {shown} is beyond ±(2^53-1)")


def _number(number: float) -> int | float:
    if not number.is_integer():
        if number - number != 0:
            raise ValueError(f"{number} is not JSON")
        return number
    if -MAX_INTEGER <= number <= MAX_INTEGER:
        return int(number)
    if abs(number) < _LEAST_EXPONENT:
        raise ValueError(f"number {number!r} is beyond ±(2^53-1)")
    return number


def _in_order(given: dict[Any, Any]) -> list[str]:
    """The keys as RFC 8785 sorts them, which is by their UTF-16 form."""
    ascii_only = True
    for key in given:
        if type(key) is not str:
            raise ValueError(f"a key is of type {type(key).__name__}, not a string")
        ascii_only = ascii_only and key.isascii()
    if ascii_only:
        return sorted(given)
    return sorted(given, key=lambda key: key.encode("utf-16-be", "surrogatepass"))


def _allow(text: str, refused: re.Pattern[str]) -> None:
    found = refused.search(text)
    if found is None:
        return
    if "\ud800" <= found[0] <= "\udfff":
        raise ValueError("lone surrogate in a string")
    raise ValueError("a control character other than tab and line ends")


def _plain(item: object) -> Json:
    """What a value of a derived type, say a member of an enumeration, is as JSON."""
    if isinstance(item, str):
        return str.__str__(item)
    if isinstance(item, int):
        return int.__int__(item)
    if isinstance(item, float):
        return float.__float__(item)
    if isinstance(item, dict):
        return dict(cast("dict[str, Json]", item))
    if isinstance(item, list | tuple):
        return list(cast("list[Json]", item))
    raise ValueError(f"a value of type {type(item).__name__} is not JSON")
