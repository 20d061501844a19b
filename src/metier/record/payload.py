"""What goes into a record is made bounded and valid here: one value in, UTF-8 of limited size out, no exception.

Text is cut with a mark that shows the cut; what no JSON text can hold (a lone surrogate, a depth without
end) is spelled out. The bytes made here are the bytes that are hashed and kept.
"""

from typing import Final, Literal, TypeAlias, cast

import msgspec

from metier.model.digest import Json
from metier.record.redact import harmless, redact

Payloads: TypeAlias = Literal["hashes", "redacted", "full"]
"""How much of a payload is kept. `hashes` and `redacted` both mask secrets before anything is hashed."""

TEXT_BYTES: Final = 4096
PAYLOAD_BYTES: Final = 1_048_576
LIST_ITEMS: Final = 64
_DEPTH: Final = 64
_NUMBERS: Final = frozenset({int, float, bool, type(None)})


def bounded_text(text: str) -> str:
    """`text` as valid Unicode of at most 4 KiB, with a mark where it was cut."""
    if len(text) <= TEXT_BYTES // 4 and text.isascii():
        return text
    data = text.encode("utf-8", "backslashreplace")
    if len(data) > TEXT_BYTES:
        mark = f"… [cut, {len(data)} bytes]"
        return data[: TEXT_BYTES - len(mark.encode())].decode("utf-8", "ignore") + mark
    return data.decode()


def fits(*texts: str) -> bool:
    """Whether `bounded_text` would change none of them; False means that each has to be asked."""
    joined = "".join(texts)
    return len(joined) <= TEXT_BYTES // 4 and joined.isascii()


def bounded_texts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """At most 64 texts, each bounded; the last one says how many were left out."""
    if len(texts) <= LIST_ITEMS and fits(*texts):
        return texts
    kept = tuple(bounded_text(text) for text in texts[:LIST_ITEMS])
    return kept if len(texts) <= LIST_ITEMS else (*kept[:-1], f"… [cut, {len(texts)} in all]")


def payload_bytes(value: Json, policy: Payloads) -> bytes:
    """The JSON text of `value` as `policy` lets it be seen."""
    if _is_plain(value):
        text = msgspec.json.encode(value)
        if policy == "full" or harmless(text):
            return text
    value = _storable(value, 0)
    return msgspec.json.encode(value if policy == "full" else redact(value))


def _is_plain(value: object) -> bool:
    """Whether it is an object of ordinary texts and numbers, as most are, so that nothing has to be made storable."""
    if type(value) is not dict:
        return False
    for name, item in cast("dict[object, object]", value).items():
        if type(name) is not str or not name.isascii():
            return False
        if not (item.isascii() if type(item) is str else type(item) in _NUMBERS):
            return False
    return True


def _storable(value: object, depth: int) -> Json:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _valid(value)
    if depth >= _DEPTH:
        return f"… [cut, deeper than {_DEPTH} levels]"
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return {_valid(str(name)): _storable(item, depth + 1) for name, item in items}
    if isinstance(value, list | tuple):
        return [_storable(item, depth + 1) for item in cast("list[object]", value)]
    return f"… [not JSON: {type(value).__name__}]"


def _valid(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
