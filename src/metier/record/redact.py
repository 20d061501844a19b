"""What is likely a secret is masked before a payload is kept. Pure.

A secret is known by the name it stands under (`{"api_key": …}`, `{"name": "Authorization", "value": …}`,
`["--password", …]`) or by its own shape inside a text. The mask has one length whatever it hides. A name
that merely contains such a word is masked too: a word lost from the record is cheaper than a secret in it.
"""

import re
from typing import Final

import msgspec

from metier.model.digest import Json
from metier.record.secret_names import names_a_secret, words_of
from metier.record.secret_text import MASK, USER_OPTIONS, mask_text, without_password

_COUNTING: Final = frozenset(
    {"max", "min", "total", "num", "used", "new", "input", "output", "prompt", "completion"}
    | {"cache", "cached", "read", "creation", "reasoning"}
)
_LABELS: Final = frozenset({"name", "key", "header", "field", "option", "variable", "param", "parameter"})
_LABELLED: Final = frozenset({"value", "values", "val", "content", "data", "default"})

_LONGEST_NAME: Final = 200
_DEPTH: Final = 128

_WORDS: Final = re.compile(
    rb"token|s(?:ecret|ession|i[dg]|eedwords)|p(?:ass|hrase|w|in)|otp|jwt|mnemonic|recoverywords|c(?:red|ookie|v[vc])"
    rb"|b(?:earer|asic)|auth|key"
)
"""Some part of every name that stands for a secret, and of every word before a credential."""
_MARKS: Final = re.compile(
    rb"@|\\|s(?:k[-_]|g\.|hp(?:at|ca|pa|ss)_)|rk_|g(?:h[pousr]_|ithub_|lpat)|x(?:ox|app-)|a(?:[ks]ia|iza)|hf_|npm_|pypi"
    rb"|eyj|ya29|whsec_|do[opr]_v1_|:aa|metier_[0-9a-f]|hooks[./]|-(?:u[\s=\"]|(?:-|proxy-)user)"
)
"""Some part of everything else that is masked, and the sign that may hide a letter. Each begins with a letter, not with a
choice of some: only then does the search look at nothing but such letters, which takes half the time."""
_BETWEEN: Final = bytes(set(range(256)) - set(b"abcdefghijklmnopqrstuvwxyz0123456789"))


def harmless(text: bytes) -> bool:
    """Whether `redact` would change nothing in a value of this JSON text. False means that it has to be looked at.

    Nearly every payload is small and holds no secret, and two searches tell so in a tenth of the time.
    """
    small = text.lower()
    if not small.isascii() or _MARKS.search(small) is not None:
        return False
    return _WORDS.search(small.translate(None, _BETWEEN)) is None


def masked(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The same texts with the mask over every secret in them. They are bounded."""
    if harmless("\n".join(texts).encode("utf-8", "surrogatepass")):
        return texts
    return tuple(map(mask_text, texts))


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
    hide, before = False, None
    for place, item in enumerate(value):
        another_option = isinstance(item, str) and item.startswith("--")
        hide = (hide and not another_option) or (pair and place == 1)
        if isinstance(item, str) and before in USER_OPTIONS and not hide:
            item = without_password(item)
        made.append(MASK if hide and item is not None else _redact(item, depth))
        hide = (
            isinstance(item, str)
            and item.startswith("-")
            and (_is_name(item) or _before_password(item, before))
        )
        before = item if isinstance(item, str) else None
    return made


def _before_password(item: str, before: str | None) -> bool:
    return item == "-p" and before is not None and before.rpartition("/")[2] == "sshpass"


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
