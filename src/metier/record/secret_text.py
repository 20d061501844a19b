"""Secrets that are known by their shape inside a text. Pure, and each pattern takes linear time.

`Authorization: Bearer …`, `password=…`, `https://user:password@host`, `curl -u user:password`, private keys, and the
tokens of well-known services, which begin with a mark of their own.
"""

import re
from typing import Final

from metier.record.secret_names import names_a_secret, says_secret

MASK: Final = "••••••••"

_TOKENS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-(?=[\w-]{0,64}?[0-9])[\w-]{16,}"  # with a digit: `sk-` also begins ordinary hyphenated words
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|xox[abeprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}(?![A-Za-z0-9])"
    r"|AIza[\w-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{32,}"
    r"|eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]*"
    r"|ya29\.[\w.-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|AGE-SECRET-KEY-1[A-Za-z0-9]{20,}"
    r"|whsec_[A-Za-z0-9+/=]{16,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{16,}|do[opr]_v1_[a-f0-9]{32,}"
    r"|metier_[0-9a-f]{12}_[0-9a-f]{32,}"  # an API token of ours
    r"|(?:bot)?[0-9]{6,12}:AA[\w-]{30,}"  # a bot of Telegram
    r")"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[A-Z ]{0,40}-----|\Z)", re.DOTALL
)
_SCHEME: Final = re.compile(r"\b(bearer|basic)(\s{1,4})([A-Za-z0-9._~+/=\-]{8,})", re.IGNORECASE)
_HOOK: Final = re.compile(
    r"(hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/[0-9]{8,24}/)[\w/-]+"
)
_OPTION: Final = re.compile(
    r"""(?<![\w-])(-u|--user|--proxy-user)(=|\s{1,4})([\\"']{0,2}[^\s:"'=]{1,200}):([^\s"'\\]+)"""
    r"""|(?<![\w-])(sshpass\s{1,4}-p\s{0,4})([^\s]+)"""
)
_USER: Final = re.compile(r"""://([^\s/?#"'<>]+)@""")
_UNSEEN: Final = "\u00ad\u200b-\u200f\u2060-\u2064\ufeff"
_NAMED: Final = re.compile(
    rf"""(?<![\w.\-{_UNSEEN}])([\w.\-{_UNSEEN}]++)[\\"']{{0,4}}\s{{0,4}}(=>|:=|==|[:=])\s{{0,4}}"""
)
_QUOTED: Final = (
    r"""\\"[^"\\]*+|\\'[^'\\]*+"""  # quoted inside a quoted text
    r"""|"[^"\\]*+(?:\\.[^"\\]*+)*+|'[^'\\]*+(?:\\.[^'\\]*+)*+"""
)
_VALUE: Final = re.compile(_QUOTED + r"""|[^\s"'&;,)}\]=:>][^\s"'&;,)}\]]*""", re.DOTALL)
_VALUE_OF_OPTION: Final = re.compile(_QUOTED + r"""|[^\s"']+""", re.DOTALL)
_OPENING: Final = re.compile(r"""\\?["']|""")
_REST_OF_LINE: Final = re.compile(r"""[^\r\n"']+""")
_VARIABLES: Final = frozenset({"pass", "pw", "otp", "cvv"})
_WHOLE_LINE: Final = ("authorization", "cookie")
_LONGEST_NAME: Final = 200
_LONG_WORD: Final = 16
USER_OPTIONS: Final = frozenset({"-u", "--user", "--proxy-user"})
"""Behind them stands `user:password`."""


def mask_text(text: str) -> str:
    """`text` with the mask over every secret that its shape gives away, or the name that stands before it."""
    if len(text) < 4:
        return text
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(MASK, text)
    if "@" in text:
        text = _USER.sub(_without_user, text)
    if "=" in text or ":" in text:
        text = _mask_named(text)
    if "hooks" in text:
        text = _HOOK.sub(rf"\1{MASK}", text)
    if "-" in text:
        text = _OPTION.sub(_without_password, text)
    text = _SCHEME.sub(_without_credential, text)
    return _TOKENS.sub(MASK, text)


def _without_user(found: re.Match[str]) -> str:
    """A name before a host opens nothing (`ssh://git@…`), but on the web it may be a token."""
    before = found.string[max(0, found.start() - 5) : found.start()].lower()
    opens = ":" in found[1] or before.endswith(("http", "https"))
    return f"://{MASK}@" if opens else found[0]


def _without_credential(found: re.Match[str]) -> str:
    """`basic knowledge` is no credential: one has a digit or a padding sign, or is long and of letters as no word has them."""
    credential = found[3]
    odd = len(credential) >= _LONG_WORD and not credential[1:].islower() and not credential.isupper()
    opens = "=" in credential or odd or any(map(str.isdigit, credential))
    return f"{found[1]}{found[2]}{MASK}" if opens else found[0]


def _without_password(found: re.Match[str]) -> str:
    if found[5] is not None:
        return f"{found[5]}{MASK}"
    return f"{found[1]}{found[2]}{without_password(f'{found[3]}:{found[4]}')}"


def without_password(given: str) -> str:
    """What was given as `user:password`, without the password. A number of a user and of a group is none."""
    user, colon, password = given.partition(":")
    return given if not colon or (user.isdigit() and password.isdigit()) else f"{user}:{MASK}"


def _mask_named(text: str) -> str:
    made: list[str] = []
    end = 0
    for found in _NAMED.finditer(text):
        if found.start() < end or not _is_named(found):
            continue
        value = _value_after(found)
        if value is None:
            continue
        opening = _OPENING.match(value[0])
        made += (text[end : value.start()], opening[0] if opening else "", MASK)
        end = value.end()
    return "".join((*made, text[end:]))


def _value_after(found: re.Match[str]) -> re.Match[str] | None:
    if found[1].startswith("-"):
        return _VALUE_OF_OPTION.match(found.string, found.end())
    if found[2] == ":" and found[1].lower().endswith(_WHOLE_LINE):
        rest = _REST_OF_LINE.match(found.string, found.end())
        if rest is not None:
            return rest
    return _VALUE.match(found.string, found.end())


def _is_named(found: re.Match[str]) -> bool:
    """In a sentence `key: …` and `pass: …` are ordinary; in an option, a query or a variable (`DB_PASS`) they are not."""
    name = found[1][-_LONGEST_NAME:]
    before = found.string[found.start() - 1 : found.start()]
    query = before in ("?", "&")
    if query and name.lower().endswith(("sig", "signature")):
        return True
    variable = "_" in name or (found[2] == "=" and name.lower() in _VARIABLES)
    given = query or variable or name.startswith("-")
    return names_a_secret(name) if given else says_secret(name)
