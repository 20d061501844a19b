"""A file of the state has one name: under a second one it may lie in a folder that a run was granted."""

import os
import subprocess
import time
from pathlib import Path

import pytest

import metier.record.place as place
from metier.errors import RecordError, StateError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database


@pytest.fixture
def granted(tmp_path: Path) -> str:
    """A second name, in a folder that anybody may be given."""
    (tmp_path / "data").mkdir()
    return str(tmp_path / "data" / "notes.txt")


@pytest.mark.parametrize("side", ["", "-wal", "-shm"])
def test_a_state_with_a_second_name_is_neither_opened_nor_looked_at(
    path: str, granted: str, side: str
) -> None:
    with Database.open(path):
        os.link(f"{path}{side}", granted)
        for use in (Database.open, Database.look):
            with pytest.raises(StateError, match="second name") as caught:
                use(path)
            assert "cp -p" in caught.value.remedy
            assert "find / -xdev -samefile" in caught.value.remedy
        os.unlink(granted)
        Database.open(path).close()


def test_a_copy_in_its_place_can_be_used_again(path: str, granted: str, act: Act) -> None:
    with Database.open(path) as database:
        AuditLog(database).refused(act, code="c", reasons=("r",))
    os.link(path, granted)
    done = subprocess.run(
        ["sh", "-c", 'cp -p "$1" "$1.copy" && mv "$1.copy" "$1"', "sh", path],
        check=False,
        capture_output=True,
    )
    assert done.returncode == 0
    with Database.open(path) as database:
        assert len(AuditLog(database).tail(10)) == 1


@pytest.mark.parametrize("end", [".new", ".draft"])
def test_a_draft_that_a_killed_process_left_is_no_second_name_and_is_taken_away(path: str, end: str) -> None:
    Database.open(path).close()
    draft = f"{path}.{'0a' * 8}{end}"
    os.link(path, draft)
    Database.open(path).close()
    assert not os.path.lexists(draft)


@pytest.mark.parametrize(
    "name", ["{0}.new", "{0}.0a0a0a0a0a0a0a0a.old", "{0}.copy", "other.0a0a0a0a0a0a0a0a.new"]
)
def test_another_name_in_the_same_folder_is_not_taken_for_a_draft(path: str, name: str) -> None:
    Database.open(path).close()
    other = os.path.join(os.path.dirname(path), name.format(os.path.basename(path)))
    os.link(path, other)
    with pytest.raises(StateError, match="second name"):
        Database.open(path)
    assert os.path.lexists(other)


def test_a_second_name_that_it_gets_while_it_is_open_is_noticed_before_anything_is_recorded(
    path: str, granted: str, act: Act
) -> None:
    with Database.open(path) as database:
        log = AuditLog(database)
        assert isinstance(log.intent(act), Intent)
        os.link(path, granted)
        with pytest.raises((RecordError, StateError), match="second name") as caught:
            log.refused(act, code="c", reasons=("r",))
        assert caught.value.remedy
        os.unlink(granted)
        log.refused(act, code="c", reasons=("r",))


class Clock:
    """Stands in for the clocks of a place, and goes on only when it is told to."""

    def __init__(self, ahead: float) -> None:
        self.seconds = 1_000.0
        self._wall = time.time_ns() + int(ahead * 1e9)

    def monotonic(self) -> float:
        return self.seconds

    def time_ns(self) -> int:
        return self._wall


@pytest.mark.parametrize("side", ["", "-wal", "-shm"])
def test_a_second_name_in_another_folder_is_noticed_within_a_second_although_the_own_folder_tells_nothing(
    path: str, granted: str, act: Act, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(path) as database:
        log = AuditLog(database)
        clock = Clock(ahead=60.0)  # long after the folder changed
        monkeypatch.setattr(place, "time", clock)
        log.refused(act, code="c", reasons=("r",))
        folder = os.stat(os.path.dirname(path))
        os.link(f"{path}{side}", granted)
        assert os.stat(os.path.dirname(path)) == folder
        log.refused(
            act, code="c", reasons=("r",)
        )  # the control: the folder alone is looked at, and is as it was
        for _ in range(2):
            clock.seconds += place.AGAIN_SECONDS
            with pytest.raises((RecordError, StateError), match="second name"):
                log.refused(act, code="c", reasons=("r",))
        os.unlink(granted)
        log.refused(act, code="c", reasons=("r",))
        assert len(log.tail(10)) == 3


def test_a_folder_that_changed_a_moment_ago_is_not_believed_for_a_second(
    path: str, granted: str, act: Act, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Database.open(path) as database:
        log = AuditLog(database)
        monkeypatch.setattr(place, "time", Clock(ahead=0.0))
        log.refused(act, code="c", reasons=("r",))
        os.link(path, granted)
        with pytest.raises((RecordError, StateError), match="second name"):
            log.refused(act, code="c", reasons=("r",))
