"""JSON with one meaning only: what two readers could understand differently is an error."""

from collections.abc import Iterable
from typing import Final, NoReturn, cast

from metier.model.digest import Json

MAX_DEPTH: Final = 32
MAX_BYTES: Final = 1_048_576
MAX_VALUES: Final = 65_536
"""Of what one call is given: going through them holds up everybody else, and many small ones take longer than one large."""
MAX_INTEGER: Final = 2**53 - 1


def loads(text: str | bytes, *, most: int = MAX_BYTES, values: int | None = None) -> Json:
    """Parse strict JSON of at most `most` bytes.

    Raises:
        ValueError: for bad syntax, bad UTF-8, a key given twice, NaN or infinities, integers beyond ±(2^53-1),
            lone surrogates, more than 32 levels, more than `values` values, or more than `most` bytes (1 MiB). The message says
            which and where.
    """
    import json  # not on the listing path

    if len(text) > most or (isinstance(text, str) and _size(text) > most):
        raise ValueError(f"more than {most:,} bytes")
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 at byte {error.start}") from None
    try:
        value = cast(
            Json,
            json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_int=_small_int),
        )
    except RecursionError:
        raise ValueError(f"more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    check(value, most=most, values=values)
    return value


def check(value: Json, *, most: int = MAX_BYTES, values: int | None = None) -> None:
    """Refuse what no strict reader would have let in, for values that did not come from text.

    What would be too much is refused before it is looked at.

    Raises:
        ValueError: as `loads`, and for more than `values` values.
    """
    room = _Room(most, most if values is None else values)
    level: list[object] = [value]  # whatever a program hands over
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        below: list[object] = []
        for item in level:
            if isinstance(item, str):
                room.text(item)
            elif isinstance(item, dict):
                below.extend(room.members(cast("dict[object, object]", item)))
            elif isinstance(item, list | tuple):
                below.extend(room.items(cast("list[object]", item)))
            else:
                _check_plain(item)
        level = below
    raise ValueError(f"more than {MAX_DEPTH} levels deep")


class _Room:
    """How much more there may be. A list that holds itself doubles at every level, and so comes to an end here."""

    __slots__ = ("_bytes", "_left", "_most", "_values")

    def __init__(self, most: int, values: int) -> None:
        self._bytes = most
        self._left = most
        self._most = values
        self._values = values

    def text(self, text: str) -> None:
        self._left -= len(text)
        if self._left < 0:
            raise ValueError(f"more than {self._bytes:,} bytes")
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ValueError("lone surrogate in a string") from None

    def members(self, given: dict[object, object]) -> Iterable[object]:
        self._enter(len(given))
        for key in given:
            if not isinstance(key, str):
                raise ValueError(f"a key is of type {type(key).__name__}, not a string")
            self.text(key)
        return given.values()

    def items(self, given: list[object]) -> list[object]:
        self._enter(len(given))
        return given

    def _enter(self, many: int) -> None:
        self._values -= many
        if self._values < 0:
            raise ValueError(f"more than {self._most:,} values")


def _check_plain(item: object) -> None:
    """What is neither text nor holds anything."""
    if type(item) is int and -MAX_INTEGER <= item <= MAX_INTEGER:
        return  # nearly all of them, and there may be many
    match item:
        case bool() | None:
            pass
        case int() if not -MAX_INTEGER <= item <= MAX_INTEGER:
            raise ValueError(f"integer {_brief(item)} is beyond ±(2^53-1)")
        case float() if item != item or item in (float("inf"), float("-inf")):
            raise ValueError(f"{item} is not JSON")
        case float() if item.is_integer() and MAX_INTEGER < abs(item) < 1e21:
            # Canonical JSON writes these as integers, and reading them back gives another number.
            raise ValueError(f"number {item!r} is beyond ±(2^53-1)")
        case int() | float():
            pass
        case _:
            raise ValueError(f"a value of type {type(item).__name__} is not JSON")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _brief(number: int) -> str:
    return hex(number) if abs(number) < 2**128 else f"of {number.bit_length()} bits"


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"key {twice!r} is given twice")
    return made


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _small_int(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) > MAX_INTEGER:
        raise ValueError(f"integer {digits[:20]}{'…' if len(digits) > 20 else ''} is beyond ±(2^53-1)")
    return int(digits)
