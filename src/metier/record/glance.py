"""What a walk through the log reads of each record, and how it ends early."""

from typing import Final

import msgspec


class Glance(msgspec.Struct):
    """The few fields of a record that the walk needs; whatever a newer Metier added does not matter."""

    seq: int
    event: str
    at: str = ""
    principal: str = ""
    call_id: str = ""
    skill: str = ""
    skill_digest: str = ""
    about: int | None = None
    payloads: dict[str, str] = {}
    unkept: dict[str, str] = {}
    grant: str = ""


class Bad(Exception):
    """The walk ends here. Without a `seq` the problem is not in a record but beside them."""

    def __init__(self, seq: int | None, problem: str) -> None:
        super().__init__(problem)
        self.seq = seq
        self.problem = problem


_decoder: Final = msgspec.json.Decoder(Glance)


def glance(body: bytes) -> Glance | str:
    """The record in `body`, or why there is none."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        return str(error)
