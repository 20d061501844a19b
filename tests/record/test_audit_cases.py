"""Cases of the audit log that are about the whole of it: its events, its place, its readers, its disk, its size."""

import json
import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from machine import Machine
from metier.config.load import load
from metier.errors import ConfigError
from metier.model.role import READ_AUDIT, ROLES
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act, append
from metier.record.database import Database
from metier.record.events import EVENTS, Event
from metier.record.keys import Keys
from metier.record.signing import sign_head
from metier.record.verify import verify
from other_user import run_as_user

KINDS: dict[str, tuple[Event, str, str]] = {
    "begun": ("skill_execution_started", "info", "action"),
    "done": ("skill_executed", "info", "action"),
    "failed": ("skill_execution_error", "error", "action"),
    "timed out": ("skill_execution_error", "error", "action"),
    "denied": ("skill_execution_blocked", "warning", "security"),
    "pending": ("skill_approval_queued", "info", "decision"),
    "approved": ("skill_approved", "info", "decision"),
    "rejected": ("skill_rejected", "info", "decision"),
    "decided by who may not": ("decision_refused", "warning", "security"),
    "expired": ("approval_expired", "info", "decision"),
    "cancelled": ("call_cancelled", "info", "action"),
    "given to who asked": ("outcome_given", "info", "action"),
    "message with the operator": ("message_done", "info", "action"),
    "disabled": ("skill_disabled", "error", "security"),
    "enabled": ("skill_enabled", "info", "security"),
    "trusted": ("skill_trusted", "info", "security"),
    "bound at first use": ("skill_pinned", "info", "security"),
    "trust taken back": ("skill_untrusted", "info", "security"),
    "standing grant": ("grant_given", "warning", "security"),
    "grant taken back": ("grant_revoked", "info", "security"),
    "somebody let in": ("principal_added", "warning", "security"),
    "somebody shut out": ("principal_revoked", "info", "security"),
    "token made": ("token_added", "warning", "security"),
    "token revoked": ("token_revoked", "info", "security"),
    "way to sign in": ("credential_set", "warning", "security"),
    "way to sign in removed": ("credential_revoked", "info", "security"),
    "somebody signed in": ("signed_in", "info", "security"),
    "level changed": ("trust_level_changed", "warning", "security"),
    "rules changed": ("policy_changed", "warning", "security"),
    "stopped": ("stopped", "warning", "security"),
    "resumed": ("resumed", "warning", "security"),
    "erased": ("payload_erased", "warning", "system"),
    "signed": ("head_signed", "info", "system"),
    "key rotated": ("key_rotated", "warning", "system"),
    "restored": ("state_restored", "warning", "system"),
    "host begun": ("host_started", "info", "system"),
    "host over": ("host_ended", "info", "system"),
}


def test_aud_15_every_kind_of_event_has_a_record_of_its_own() -> None:
    assert {event for event, _, _ in KINDS.values()} == set(EVENTS)
    for kind, (event, level, category) in KINDS.items():
        assert EVENTS[event] == (level, category), kind


def test_aud_15_what_is_no_event_is_not_recorded_and_nobody_chooses_its_level(
    database: Database, log: AuditLog, act: Act
) -> None:
    with pytest.raises(KeyError), database.transaction() as connection:
        append(connection, "everything_is_fine", act, at="x")  # type: ignore[arg-type]
    assert log.head()[0] == 0
    with database.transaction() as connection:
        for event in EVENTS:
            append(connection, event, act, at="x")
    assert [(record.event, record.level, record.category) for record in log.tail(100)] == [
        (event, *kind) for event, kind in EVENTS.items()
    ]


@pytest.mark.parametrize(
    "text",
    ['[audit]\npath = "/tmp/x"', '[audit]\ndatabase = "x"', 'home = "/tmp/x"', "[audit]\nenabled = false"],
)
def test_aud_17_no_configuration_moves_the_log_or_switches_it_off(tmp_path: Path, text: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "metier.toml").write_text('[audit]\npayloads = "full"\nkeep_days = 30\n', encoding="utf-8")
    settings = load(home=str(home), project=str(tmp_path), environ={"HOME": str(tmp_path)})
    assert (settings.audit.payloads, settings.audit.keep_days) == ("full", 30)
    assert settings.database == str(home / "state.db")
    (home / "metier.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown"):
        load(home=str(home), project=str(tmp_path), environ={"HOME": str(tmp_path)})


@pytest.mark.parametrize("text", ['[audit]\npayloads = "hashes"', "[audit]\nkeep_days = 1"])
def test_aud_17_a_project_has_no_say_in_the_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "metier.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="may only restrict"):
        load(home=str(tmp_path / "home"), project=str(tmp_path), environ={"HOME": str(tmp_path)})


def test_aud_17_no_tool_reaches_the_log(tmp_path: Path) -> None:
    names = [tool["function"]["name"] for tool in Machine(tmp_path).json("tools", "--as", "openai", "--json")]
    assert names
    assert not [name for name in names if "audit" in name or "record" in name]


def test_aud_18_another_user_reads_nothing() -> None:
    """The folder was open to everybody until Metier came."""
    if os.geteuid():
        pytest.skip("only root can become somebody else")
    with tempfile.TemporaryDirectory(prefix="open-to-all-") as top:
        os.chmod(top, 0o755)  # noqa: S103  the point of it
        state = os.path.join(top, "state")
        os.mkdir(state)
        os.chmod(state, 0o755)  # noqa: S103
        other = os.path.join(state, "notes")
        Path(other).write_text("for all", encoding="utf-8")
        script = f"print(open({other!r}).read())"
        assert run_as_user(script) == "for all\n"
        path = os.path.join(state, "state.db")
        with Database.open(path) as database:
            AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",))
        tried = (
            "from metier.errors import MetierError\nfrom metier.record.database import Database\n"
            f"for way in (lambda: open({path!r}), lambda: open({other!r}), lambda: Database.look({path!r})):\n"
            "    try:\n        way()\n        print('read')\n"
            "    except (OSError, MetierError) as error:\n        print(type(error).__name__)\n"
        )
        assert run_as_user(tried).split() == ["PermissionError", "PermissionError", "StateError"]


def test_aud_18_reading_the_log_is_a_right_of_its_own() -> None:
    assert {role for role, rights in ROLES.items() if READ_AUDIT in rights} == {
        "owner",
        "operator",
        "approver",
        "viewer",
    }
    assert READ_AUDIT not in ROLES["agent"]


NO_SYNC = """
import ctypes, errno, os, struct, sys
from metier.errors import MetierError
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database

def refuse_syncs():
    # A filter of three questions: is it fsync, is it fdatasync, then EIO; else let it be.
    fsync, fdatasync = {"x86_64": (74, 75), "aarch64": (82, 83)}[os.uname().machine]
    code = b"".join(struct.pack("=HBBI", *each) for each in (
        (0x20, 0, 0, 0), (0x15, 2, 0, fsync), (0x15, 1, 0, fdatasync), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | errno.EIO)))
    held = ctypes.create_string_buffer(code)
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(len(code) // 8, ctypes.addressof(held))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()

def record():
    try:
        print(log.refused(Act(principal="p"), code="c", reasons=("r",)), flush=True)
    except MetierError as error:
        print(type(error).__name__, "could not be read or written" in str(error), flush=True)

with Database.open(path) as database:
    log = AuditLog(database)
    record()
    refuse_syncs()
    record()
    record()
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"), reason="made for Linux"
)
def test_aud_19_a_sync_that_fails_means_that_nothing_was_recorded(
    path: str, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    worker = start(NO_SYNC)
    said, _ = worker.communicate(timeout=30)
    assert worker.returncode == 0
    assert said.splitlines() == ["1", "RecordError True", "RecordError True"]
    found = verify(path)
    assert found.ok
    assert found.records >= 1
    with Database.open(path) as database:
        before = AuditLog(database).head()[0]
        assert AuditLog(database).refused(Act(principal="p"), code="c", reasons=("r",)) == before + 1
    assert verify(path).ok


def test_aud_13_memory_does_not_grow_with_calls_payloads_and_checkpoints(
    path: str, database: Database, log: AuditLog, keys: Keys
) -> None:
    def peak_after(calls: int) -> int:
        begun = log.head()[0]
        with database.transaction() as connection:
            for number in range(calls):
                act = Act(principal="agent:cli", call_id=f"{begun}-{number}", evidence="policy")
                intent = log.intending(act, payloads={"arguments": {"n": number}})(connection)
                assert isinstance(intent, Intent)
                log.ending(intent, "skill_executed", payloads={"result": "done"})(connection)
        sign_head(database, keys, by="human:x")
        verify(path)
        tracemalloc.start()
        try:
            assert verify(path).ok
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    small = peak_after(500)
    assert peak_after(5_000) < small + 100_000


@pytest.mark.slow
def test_aud_13_the_benchmark_says_how_fast_and_in_how_much_memory(tmp_path: Path) -> None:
    program = Path(__file__).parents[2] / "benchmarks" / "verify.py"
    line = [
        sys.executable,
        str(program),
        "--records",
        "4000",
        "--rounds",
        "1",
        "--folder",
        str(tmp_path),
        "--json",
    ]
    found = json.loads(subprocess.run(line, check=True, capture_output=True, text=True, timeout=50).stdout)
    assert found["records"] == 4001
    assert found["records_per_second"] > 0
    assert "peak_growth_kb" in found
