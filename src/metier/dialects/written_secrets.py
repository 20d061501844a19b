"""Credentials that somebody wrote out where everybody can read them. A guess by their look; it only warns."""

import re
from typing import Final

_LOOKS: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[A-Za-z0-9_-]{16,}|gh[opsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}"
    r"|glpat-[A-Za-z0-9_-]{16,}"
    r"|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*)"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
)
_ASSIGNED: Final = re.compile(
    r"(?i)(?:api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret|password|passwd)"
    r"[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9_+/.~-]{8,}"
)
_HEADER: Final = re.compile(r"(?i)authorization|cookie|api-?key|token|secret|password|credential")
_SCHEME: Final = re.compile(r"(?i)(?:bearer|basic|token|apikey|digest)\s+")
_SHORTEST: Final = 6


def looks_secret(text: str) -> bool:
    """Whether something in `text` has the form of a key, a token or a password."""
    return _LOOKS.search(text) is not None or _ASSIGNED.search(text) is not None


def header_looks_secret(name: str, fixed: str) -> bool:
    """Whether a header line carries a credential; `fixed` is what is written out of its value."""
    if looks_secret(fixed):
        return True
    return _HEADER.search(name) is not None and len(_SCHEME.sub("", fixed + " ").strip()) >= _SHORTEST
