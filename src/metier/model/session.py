"""What a call's session is called, and what that means to somebody who grants a thing "for the session". Pure."""

import hashlib
import re
from typing import Final

_TOKEN: Final = r"token:[^/]+"  # noqa: S105  no secret: the id of one
_MEANS: Final = (
    (
        re.compile(_TOKEN),
        "no session that ends: every call with this token counts as one, whichever program makes it",
    ),
    (
        re.compile(rf"{_TOKEN}/mcp:[0-9a-f]+"),
        "one session of an MCP client; when it connects anew it is another",
    ),
    (re.compile(r"mcp-[0-9a-f]+"), "one run of `metier mcp`; when its client starts it anew it is another"),
    (re.compile(r"session:.+"), "until that person signs out"),
)


def of_token(ref: str) -> str:
    """Where nothing but the token (its id) tells that two calls belong together."""
    return f"token:{ref}"


def of_mcp_session(ref: str, session: str) -> str:
    """One session of a client that comes with this token. Its id is not written down: whoever has it and the token speaks in it."""
    return f"{of_token(ref)}/mcp:{hashlib.sha256(session.encode()).hexdigest()[:16]}"


def in_words(session: str, *, only: bool = False) -> str:
    """As an approver is told it: by its name, and for how long it lasts where that is known. `only`: in it and in no other."""
    means = next((said for named, said in _MEANS if named.fullmatch(session)), "")
    return session + (" only" if only else "") + (f" ({means})" if means else "")
