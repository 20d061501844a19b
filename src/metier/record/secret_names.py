"""Which names stand for secrets. Pure.

Names are compared by their letters and digits only: `apiKey`, `API_KEY` and `x-api:key` are one.
"""

import re
from typing import Final

_ANYWHERE: Final = re.compile(
    "token|secret|passw(?:or)?d|passphrase|passcode|pwd|pincode|otpcode|jwt|credential|cookie|bearer"
    "|authorization|authheader|sessionid|mnemonic|(?:seed|recovery)(?:phrase|words)"
    "|(?:api|access|private|signing|encryption|ssh|client|secret|session|master|auth|deploy|consumer|service"
    "|account|storage|licen[cs]e)key"
)
"""Found in the letters and digits of a name, however they are set apart."""
_AT_THE_END: Final = frozenset(
    {"auth", "pass", "pw", "otp", "totp", "pin", "session", "sid", "sig", "creds", "cvv", "cvc"}
)
"""Too common inside other words, so only as the last word of a name."""
_ALONE: Final = frozenset({"key"})
"""Secret only by itself: `sort_key` is none."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD: Final = re.compile(r"[^\W_]+")


def names_a_secret(name: str) -> bool:
    """Whether what stands under `name` is likely a secret."""
    words = words_of(name)
    joined = "".join(words)
    if not joined:
        return False
    last = words[-1].rstrip("0123456789")
    return (
        joined in _ALONE
        or joined in _AT_THE_END
        or last in _AT_THE_END
        or _ANYWHERE.search(joined) is not None
    )


def says_secret(name: str) -> bool:
    """Whether `name` holds a word that means a secret wherever it stands, in a sentence too."""
    return _ANYWHERE.search("".join(words_of(name))) is not None


def words_of(name: str) -> list[str]:
    """The words of a name in small letters: what looks alike is made alike, what cannot be seen is dropped."""
    if name.isascii():
        return _WORD.findall(_HUMP.sub(" ", name).casefold())
    import unicodedata

    bare = unicodedata.normalize("NFKD", _HUMP.sub(" ", name)).casefold().translate(_LOOKALIKES)
    return _WORD.findall("".join(letter for letter in bare if unicodedata.category(letter) not in _UNSEEN))


_LOOKALIKES: Final = str.maketrans("аеорсухіѕһԁјкαικνορτυχ", "aeopcyxishdjkaikvoptux")  # Cyrillic, Greek
_UNSEEN: Final = frozenset({"Mn", "Me", "Cf", "Cc", "Cn", "Co", "Cs"})
