"""Being refused costs a caller nothing, so what is kept of it is little; that it happened is always recorded."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from metier.model.outcome import Refused
from metier.record.chain import Record
from metier.record.refused_room import HOURLY_BYTES, REFUSED_BYTES, RefusedRoom
from metier.record.verify import verify
from parlour import Parlour, tool


@pytest.fixture
def parlour(tmp_path: Path) -> Iterator[Parlour]:
    made = Parlour(tmp_path, tool())
    yield made
    made.database.close()


def refused(parlour: Parlour, name: str, text: str) -> Record:
    arguments = {"text": text} if name == "send" else {"to": "ada", "text": text}
    assert isinstance(parlour.call(name, arguments), Refused)
    return parlour.log.tail(1)[0]


@pytest.mark.parametrize("name", ["send", "unknown"])
def test_a_large_payload_of_a_refusal_is_kept_as_digest_and_length(parlour: Parlour, name: str) -> None:
    record = refused(parlour, name, "long " * 180_000)
    assert record.payloads.keys() >= {"arguments"}
    assert record.unkept.keys() == record.lengths.keys() == {"arguments"}
    assert record.lengths["arguments"] > 900_000
    assert "arguments" not in parlour.log.kept(record)
    assert sum(path.stat().st_size for path in Path(parlour.database.path).parent.iterdir()) < 900_000
    assert verify(parlour.database).ok
    parlour.log.erase(record.seq, by="human:x")
    assert verify(parlour.database).ok


def test_an_ordinary_payload_of_a_refusal_is_kept(parlour: Parlour) -> None:
    record = refused(parlour, "unknown", "tea? " * 2_000)
    assert (record.unkept, record.lengths) == ({}, {})
    assert parlour.log.kept(record)["arguments"] == {"to": "ada", "text": "tea? " * 2_000}


def test_what_runs_is_kept_however_large_it_is(parlour: Parlour) -> None:
    parlour.call("send", {"to": "ada", "text": "tea? " * 20_000})
    assert len(parlour.ran) == 1
    started = next(each for each in parlour.log.tail(2) if each.event == "skill_execution_started")
    assert parlour.log.kept(started)["arguments"] == parlour.ran[0]
    assert started.lengths == {}


def test_each_principal_has_so_much_room_an_hour_and_no_more() -> None:
    now = [0.0]
    room = RefusedRoom(lambda: now[0])
    kept = sum(room.take("agent:flood", REFUSED_BYTES) for _ in range(10_000))
    assert kept == HOURLY_BYTES
    assert room.take("agent:flood", 1) == 0
    assert room.take("agent:other", 100) == REFUSED_BYTES, "one who floods takes nothing from others"
    now[0] += 3_600
    assert room.take("agent:flood", 1) == REFUSED_BYTES


def test_many_names_are_no_way_around_it() -> None:
    room = RefusedRoom()
    kept = sum(room.take(f"agent:{number}", REFUSED_BYTES) for number in range(20_000))
    assert kept <= HOURLY_BYTES + 1024 * REFUSED_BYTES
