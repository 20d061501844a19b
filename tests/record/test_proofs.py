"""A proof is enough by itself: the text, a public key, and no log."""

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from metier.errors import RecordError
from metier.record.audit import AuditLog
from metier.record.chain import Act
from metier.record.checkpoint import Checkpoint, Known
from metier.record.database import Database
from metier.record.keys import Keys
from metier.record.proof import (
    Consistency,
    Inclusion,
    Proof,
    proof_problem,
    proof_text,
    prove_consistency,
    prove_inclusion,
    read_proof,
)
from metier.record.signing import sign_head


@pytest.fixture
def signed(database: Database, log: AuditLog, keys: Keys) -> list[Checkpoint]:
    """Three checkpoints of a log that grew in between: of 5, 11 and 17 records."""
    made: list[Checkpoint] = []
    for _ in range(3):
        for _ in range(5):
            log.refused(Act(principal="agent:cli", tool="t"), code="c", reasons=("räson",))
        made.append(sign_head(database, keys, by="human:x"))
    return made


def handed_on(proof: Proof) -> Proof:
    """As it arrives elsewhere."""
    read = read_proof(proof_text(proof))
    assert not isinstance(read, str), read
    return read


def test_every_record_is_proven_to_be_in_every_checkpoint_that_has_it(
    database: Database, keys: Keys, signed: list[Checkpoint]
) -> None:
    assert [each.size for each in signed] == [5, 11, 17]
    for checkpoint in signed:
        for seq in range(1, checkpoint.size + 1):
            proof = handed_on(prove_inclusion(database, seq, checkpoint))
            assert proof_problem(proof, keys.known()) == ""
            assert isinstance(proof, Inclusion)
            assert msgspec.json.decode(proof.record)["seq"] == seq


def test_every_checkpoint_is_proven_to_have_grown_out_of_every_earlier_one(
    database: Database, keys: Keys, signed: list[Checkpoint]
) -> None:
    for place, older in enumerate(signed):
        for newer in signed[place:]:
            proof = handed_on(prove_consistency(database, older, newer))
            assert proof_problem(proof, keys.known()) == ""


def test_what_is_not_in_the_checkpoint_cannot_be_proven(database: Database, signed: list[Checkpoint]) -> None:
    for seq in (0, 6, 99):
        with pytest.raises(RecordError, match="not among the 5"):
            prove_inclusion(database, seq, signed[0])
    with pytest.raises(RecordError, match="more records than the newer"):
        prove_consistency(database, signed[1], signed[0])


def test_a_log_that_was_changed_proves_nothing(
    database: Database, signed: list[Checkpoint], intruder: sqlite3.Connection
) -> None:
    intruder.execute("UPDATE audit SET body = CAST(replace(body, 'cli', 'bob') AS BLOB) WHERE seq = 3")
    with pytest.raises(RecordError, match="not the one of this checkpoint"):
        prove_inclusion(database, 3, signed[1])
    intruder.execute("UPDATE audit SET hash = zeroblob(32) WHERE seq = 2")
    for act in (
        lambda: prove_inclusion(database, 9, signed[1]),
        lambda: prove_consistency(database, signed[0], signed[1]),
    ):
        with pytest.raises(RecordError, match="not the one of this checkpoint"):
            act()


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another record": lambda proof: proof.update(record=proof["record"].replace("agent:cli", "agent:bob")),
    "another number": lambda proof: proof.update(seq=proof["seq"] + 1),
    "no number": lambda proof: proof.update(seq=0),
    "another past": lambda proof: proof.update(previous="00" * 32),
    "no hash": lambda proof: proof.update(previous="xyz"),
    "a step less": lambda proof: proof["path"].pop(),
    "a step more": lambda proof: proof["path"].append("00" * 32),
    "another step": lambda proof: proof["path"].__setitem__(0, "00" * 32),
    "another size": lambda proof: proof.update(checkpoint=proof["checkpoint"].replace("\n11\n", "\n12\n")),
    "no checkpoint": lambda proof: proof.update(checkpoint=""),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_proof_proves_nothing(
    database: Database, keys: Keys, signed: list[Checkpoint], forge: Callable[[dict[str, Any]], object]
) -> None:
    proof = msgspec.json.decode(proof_text(prove_inclusion(database, 4, signed[1])))
    assert proof_problem(_read(proof), keys.known()) == ""
    forge(proof)
    assert proof_problem(_read(proof), keys.known())


def _read(proof: dict[str, Any]) -> Proof:
    read = read_proof(msgspec.json.encode(proof).decode())
    assert not isinstance(read, str), read
    return read


def test_two_logs_are_not_proven_to_be_one(database: Database, keys: Keys, signed: list[Checkpoint]) -> None:
    proof = prove_consistency(database, signed[0], signed[2])
    swapped = msgspec.structs.replace(proof, older=proof.newer, newer=proof.older)
    assert proof_problem(swapped, keys.known())
    skipped = msgspec.structs.replace(proof, newer=signed[1].text())
    assert "does not begin with" in proof_problem(skipped, keys.known())


def test_without_a_key_or_with_another_one_nothing_is_proven(
    database: Database, keys: Keys, signed: list[Checkpoint], tmp_path: Any
) -> None:
    proof = prove_inclusion(database, 1, signed[0])
    assert "no public key" in proof_problem(proof, [])
    other = Keys(str(tmp_path / "other"))
    with other.alone():
        key = other.signer(signed[0].origin, current="").public
    assert "not signed with key" in proof_problem(proof, [Known(key=key)])


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"proof":"none"}', '{"proof":"inclusion"}', "\ud800", "x" * 20_000_000]
)
def test_what_is_no_proof_is_not_read(text: str) -> None:
    assert isinstance(read_proof(text), str)


def test_a_proof_says_what_kind_it_is(database: Database, signed: list[Checkpoint]) -> None:
    assert isinstance(handed_on(prove_consistency(database, signed[0], signed[1])), Consistency)
