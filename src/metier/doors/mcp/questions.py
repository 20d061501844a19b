"""Questions to the person at a client, and which answers count: each one once, from whom it was put to, for the act it was about.

In the newer generation of the protocol a question and its answer are two requests, and the client carries what ties them
together. The SDK seals that (`RequestStateBoundary`); here is the second guard, which needs no seal: a question that was not put
by this process to this principal over this connection for exactly this has no answer.
"""

import secrets
import time
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.doors.mcp.peer import Peer
from metier.model.digest import Json, canonical, digest_bytes

Kind: TypeAlias = Literal["confirm", "approve"]
Said: TypeAlias = Literal["yes", "no", "nothing"]

SECONDS: Final = 300.0
"""For so long a question can be answered."""
LONGEST: Final = 16_000
"""Characters of a question. What is longer is not asked here: nobody says yes to what he was not shown whole."""
_MOST: Final = 64
"""Questions open at once, to one principal. Beyond that his oldest is forgotten, and asked anew."""


@final
class Question(Struct, frozen=True, kw_only=True):
    """One question. It is what the client carries, so nothing in it is believed by itself."""

    kind: Kind
    id: str
    act: str
    """Digest of the tool and its arguments."""
    about: str = ""
    """For an approval: the fingerprint of the act it is about."""


@final
class Questions:
    """Those that were put and not answered. Belongs to one loop."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[Question, str, str, float]] = {}

    def put(self, kind: Kind, peer: Peer, act: str, about: str = "", id: str = "") -> Question:
        """Note that it is asked. `id` where it has one already."""
        self._forget(peer.principal.id)
        made = Question(kind=kind, id=id or new_id(), act=act, about=about)
        until = time.monotonic() + SECONDS
        self._open[made.id] = (made, peer.principal.id, peer.connection, until)
        return made

    def _forget(self, principal: str) -> None:
        """What is over, and of one who has too many the oldest."""
        now = time.monotonic()
        for id in [id for id, (_, _, _, until) in self._open.items() if until < now]:
            del self._open[id]
        his = [id for id, (_, whose, _, _) in self._open.items() if whose == principal]
        for id in his[: max(0, len(his) - _MOST + 1)]:
            del self._open[id]

    def take(self, given: Question, peer: Peer, act: str) -> bool:
        """Whether an answer to it counts. It does so once."""
        found = self._open.pop(given.id, None)
        if found is None:
            return False
        put, principal, connection, until = found
        return (
            put == given
            and put.act == act
            and (principal, connection) == (peer.principal.id, peer.connection)
            and time.monotonic() <= until
        )


def new_id() -> str:
    """Of a question."""
    return f"ask_{secrets.token_hex(12)}"


def act_of(tool: str, arguments: dict[str, Json]) -> str:
    """What a question is about.

    Raises:
        ValueError: when the arguments are nothing that could run.
    """
    return digest_bytes(canonical([tool, arguments]))
