"""Which session a request over HTTP belongs to.

The generation before 2026-07-28 opens one, which its client ends, or loses when it is idle; what is granted for a session ends with it.
The newer has none: every request stands for itself, and the token is all that two of them have in common. Then that is the session,
and whoever is asked to grant something for it is told so.
"""

from collections.abc import Iterable
from typing import Final

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from metier.model.session import of_mcp_session, of_token

_SESSION: Final = b"mcp-session-id"
_VERSION: Final = b"mcp-protocol-version"


def session_in(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id of the session that a request is made in; empty where it is made in none.

    The SDK goes by the same two headers. One of the newer generation may send an id too, which nobody has looked at then.
    """
    sent: dict[bytes, str] = {}
    for name, value in headers:
        sent.setdefault(name, value.decode("latin-1"))
    version = sent.get(_VERSION)
    older = version is None or version in HANDSHAKE_PROTOCOL_VERSIONS
    return sent.get(_SESSION, "") if older else ""


def connection_of(ref: str, session: str) -> str:
    """What calls are tied to that come with the token `ref`, in this session or in none."""
    return of_mcp_session(ref, session) if session else of_token(ref)
