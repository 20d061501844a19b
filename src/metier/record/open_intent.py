"""What the record says about a call that is under way: for who is asked to do a part of it in another process.

He takes nobody's word for who asks and for what. Everything is read from the record: it was written before anything may run.
"""

from typing import TYPE_CHECKING, Final, final

import msgspec

from metier.model.digest import Json
from metier.record.beside import key_of
from metier.record.chain import Record, keyed_digest
from metier.record.glance import UNDECODABLE
from metier.record.payload import Payloads, payload_bytes
from metier.record.secret_arguments import kept_arguments
from metier.record.tokens import tokens_in

if TYPE_CHECKING:
    from metier.record.database import Database

ARGUMENTS: Final = "arguments"
_POLICIES: Final[tuple[Payloads, ...]] = ("redacted", "full")


@final
class OpenIntent(msgspec.Struct, frozen=True, kw_only=True):
    """An act that was announced and has no outcome yet."""

    seq: int
    """Of its record. Another attempt of the same call has another."""
    call_id: str
    tool: str
    skill: str
    """That it was judged as one of: whose tool it is, or the skill whose code asks; empty where there is none."""
    principal: str
    on_behalf_of: str
    token: str
    """Id of the API token it came with, or empty."""
    scopes: frozenset[str] | None
    """What that token gives at most now; None where there is none."""
    session: str
    channel: str
    process: str
    """The process that announced it, as `process_as_recorded` writes it."""
    digest: str
    """Of its arguments, under `key`; empty where none were recorded."""
    key: bytes

    def has(self, arguments: dict[str, Json]) -> bool:
        """Whether these are the recorded arguments. Takes a moment for large ones.

        Secrets are masked before anything is recorded, so two that differ in one are the same here.
        """
        if not self.digest or not self.key:
            return False
        kept = kept_arguments(self.tool, arguments)
        # How much of a payload is kept is the operator's choice, and he may have changed it since.
        return any(keyed_digest(self.key, payload_bytes(kept, policy)) == self.digest for policy in _POLICIES)


def open_intent(database: "Database", call_id: str) -> OpenIntent | None:
    """The newest act of the call `call_id` that is announced and has no outcome; None when there is none that can be read.

    Raises:
        StateError: when the record cannot be read.
    """
    if not call_id or not call_id.isascii():  # our ids are, and a driver takes no broken text
        return None
    with database.reading() as connection:
        row = connection.execute(
            """SELECT open_intent.seq, audit.body, audit.keys, CAST(open_intent.process AS BLOB)
               FROM open_intent JOIN audit USING (seq) WHERE open_intent.call_id = ? ORDER BY seq DESC LIMIT 1""",
            (call_id,),
        ).fetchone()
        tokens = tokens_in(connection)
    if row is None:
        return None
    seq, body, keys, process = row
    try:
        record = msgspec.json.decode(body, type=Record)
        written = process.decode()
    except (*UNDECODABLE, AttributeError):  # somebody damaged it, and nothing is done on its word
        return None
    if record.call_id != call_id or record.seq != seq or record.event != "skill_execution_started":
        return None
    token = tokens.get(record.token)
    scopes = token.scopes if token is not None else frozenset[str]()
    return OpenIntent(
        seq=seq,
        call_id=call_id,
        tool=record.tool,
        skill=record.skill,
        principal=record.principal,
        on_behalf_of=record.on_behalf_of,
        token=record.token,
        scopes=scopes if record.token else None,
        session=record.session,
        channel=record.channel,
        process=written,
        digest=record.payloads.get(ARGUMENTS, ""),
        key=key_of(ARGUMENTS, record.payloads, keys),
    )


def newest(database: "Database") -> int:
    """The number of the newest record.

    Raises:
        StateError: when the record cannot be read.
    """
    with database.reading() as connection:
        (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM audit").fetchone()
    return int(seq)


def still_open(database: "Database") -> frozenset[int]:
    """The numbers of all intents without an outcome.

    Raises:
        StateError: when the record cannot be read.
    """
    with database.reading() as connection:
        return frozenset(seq for (seq,) in connection.execute("SELECT seq FROM open_intent"))
