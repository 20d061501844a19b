"""What is likely a secret is masked before a payload is kept. Pure.

A secret is known by the name it stands under (`{"api_key": …}`, `{"name": "Authorization", "value": …}`,
`["--password", …]`) or by its own shape inside a text. The mask has one length whatever it hides. A name
that merely contains such a word is masked too: a word lost from the record is cheaper than a secret in it.
"""

from typing import Final

import msgspec

from metier.model.digest import Json
from metier.record.secret_names import names_a_secret, words_of
from metier.record.secret_text import MASK, mask_text

_COUNTING: Final = frozenset(
    {"max", "min", "total", "num", "used", "new", "input", "output", "prompt", "completion"}
    | {"cache", "cached", "read", "creation", "reasoning"}
)
_LABELS: Final = frozenset({"name", "key", "header", "field", "option", "variable", "param", "parameter"})
_LABELLED: Final = frozenset({"value", "values", "val", "content", "data", "default"})

_LONGEST_NAME: Final = 200
_DEPTH: Final = 128


def redact(value: Json) -> Json:
    """A copy of `value` in which everything that is likely a secret is the mask, at any depth.

    Null stays: that nothing was given is worth knowing and gives nothing away. So do numbers that count
    tokens (`max_tokens`), which do not open anything.
    """
    return _redact(value, 0)


def _redact(value: Json, depth: int) -> Json:
    if isinstance(value, str):
        return _text(value, depth)
    if not isinstance(value, dict | list):
        return value
    if depth >= _DEPTH:
        return MASK
    return _object(value, depth + 1) if isinstance(value, dict) else _list(value, depth + 1)


def _object(value: dict[str, Json], depth: int) -> Json:
    plain = {name: "".join(words_of(name)) for name in value}
    labelled = not _LABELLED.isdisjoint(plain.values())
    hidden = labelled and any(
        isinstance(label, str) and len(label) <= _LONGEST_NAME and names_a_secret(label)
        for name, label in value.items()
        if plain[name] in _LABELS
    )
    made: dict[str, Json] = {}
    for name, item in value.items():
        is_label = labelled and plain[name] in _LABELS
        if (hidden and plain[name] in _LABELLED) or (not is_label and names_a_secret(name)):
            made[mask_text(name)] = item if item is None or _counts(name, item) else MASK
        else:
            made[mask_text(name)] = _redact(item, depth)
    return made


def _list(value: list[Json], depth: int) -> Json:
    made: list[Json] = []
    first = value[0] if len(value) == 2 else None
    pair = isinstance(first, str) and not first.startswith("-") and _is_name(first)
    hide = False
    for place, item in enumerate(value):
        another_option = isinstance(item, str) and item.startswith("--")
        hide = (hide and not another_option) or (pair and place == 1)
        made.append(MASK if hide and item is not None else _redact(item, depth))
        hide = isinstance(item, str) and item.startswith("-") and _is_name(item)
    return made


def _text(text: str, depth: int) -> str:
    """A text that is JSON is looked at as what it says; any other by the shapes in it."""
    if text.lstrip()[:1] in ("{", "[") and depth < _DEPTH:
        try:
            inside: Json = msgspec.json.decode(text)
            masked = _redact(inside, depth + 1)
            if masked != inside:
                return msgspec.json.encode(masked).decode()
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
            pass  # not JSON, or none that can be written again
    return mask_text(text)


def _is_name(item: Json) -> bool:
    """Whether `item` is one word that names a secret, like an option or a header, and no sentence."""
    return (
        isinstance(item, str)
        and len(item) <= _LONGEST_NAME
        and "=" not in item
        and not any(map(str.isspace, item))
        and names_a_secret(item)
    )


def _counts(name: str, value: Json) -> bool:
    words = words_of(name)
    return (
        isinstance(value, int | float)
        and len(words) > 1
        and words[-1] == "tokens"
        and _COUNTING.issuperset(words[:-1])
    )
