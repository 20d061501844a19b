"""Values that stand under the name of a secret are masked before a payload is kept. Pure.

The mask has one length whatever it hides. A name that merely contains such a word is masked too: a token
count lost from the record is cheaper than a token kept in it.
"""

import unicodedata
from typing import Final

from metier.model.digest import Json

MASK: Final = "••••••••"

_WORDS: Final = (
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "authorization",
    "credential",
    "cookie",
    "bearer",
    "sessionid",
)
_SEPARATORS: Final = str.maketrans("", "", "_-. \t")


def names_a_secret(name: str) -> bool:
    """Whether what stands under `name` is likely a secret: `apiKey`, `API_KEY` and `x-api-key` are one."""
    if not name.isascii():
        name = unicodedata.normalize("NFKC", name)
    joined = name.casefold().translate(_SEPARATORS)
    return any(word in joined for word in _WORDS)


def redact(value: Json) -> Json:
    """A copy of `value` in which everything under the name of a secret is the mask, at any depth.

    Null stays: that nothing was given is worth knowing and gives nothing away. So do numbers under a name
    in the plural (`max_tokens`), which count and do not open anything.
    """
    if isinstance(value, dict):
        return {
            name: _masked(name, item) if names_a_secret(name) else redact(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [redact(item) for item in value]
    return value


def _masked(name: str, value: Json) -> Json:
    counts = isinstance(value, int | float) and name.casefold().endswith("tokens")
    return value if value is None or counts else MASK
