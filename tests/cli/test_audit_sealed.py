"""Signing, proving, finding, handing on and erasing at the command line."""

import csv
import io
import json
import sqlite3
from pathlib import Path

import pytest

from machine import Machine
from metier.record.audit import AuditLog, Intent
from metier.record.chain import Act
from metier.record.database import Database


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def happened(machine: Machine, calls: int = 3, clock: str = "") -> None:
    with Database.open(machine.settings().database) as database:
        log = AuditLog(database, **({"clock": lambda: clock} if clock else {}))  # type: ignore[arg-type]
        for _ in range(calls):
            act = Act(
                principal="agent:cli", call_id=f"call-{log.head()[0]}", tool="notes/write", skill="notes"
            )
            intent = log.intent(act, payloads={"arguments": {"text": "a canary"}})
            assert isinstance(intent, Intent)
            log.outcome(intent, "skill_executed", payloads={"result": "=1+1"})


def edit(machine: Machine, statement: str) -> None:
    with sqlite3.connect(machine.settings().database) as file:
        file.execute(statement)
    file.close()


def test_a_checkpoint_kept_elsewhere_finds_what_was_changed_here(machine: Machine) -> None:
    happened(machine)
    kept = machine.project / "kept"
    said = machine.metier("audit", "checkpoint", "--out", str(kept)).stdout
    assert said == kept.read_text(encoding="utf-8")
    happened(machine)
    assert (
        "first 6 are those of the checkpoint"
        in machine.metier("audit", "verify", "--since", str(kept)).stdout
    )
    found = machine.json("audit", "verify", "--since", str(kept), "--json")
    assert (found["ok"], found["records"], found["signed"]) == (True, 13, 6)
    edit(machine, "DELETE FROM signed_head")
    edit(machine, "DELETE FROM audit WHERE seq > 5")
    assert "cut off" in machine.metier("audit", "verify", "--since", str(kept), check=1).stderr


def test_a_checkpoint_counts_only_with_a_signature_of_a_key_that_is_known(
    machine: Machine, tmp_path: Path
) -> None:
    happened(machine)
    kept, keys = machine.project / "kept", machine.state / "keys" / "public.keys"
    machine.metier("audit", "checkpoint", "--out", str(kept))
    away = tmp_path / "public.keys"
    away.write_bytes(keys.read_bytes())
    machine.metier("audit", "verify", "--since", str(kept), "--key", str(away))
    kept.write_text(kept.read_text(encoding="utf-8").replace("\n6\n", "\n5\n"), encoding="utf-8")
    assert "signature is false" in machine.metier("audit", "verify", "--since", str(kept), check=1).stderr
    keys.unlink()
    assert "no public key" in machine.metier("audit", "verify", "--since", str(kept), check=1).stderr
    kept.write_text("nothing", encoding="utf-8")
    assert "not a checkpoint" in machine.metier("audit", "verify", "--since", str(kept), check=2).stderr


def test_a_checkpoint_of_a_log_that_is_gone_is_an_alarm(machine: Machine, tmp_path: Path) -> None:
    happened(machine)
    kept = tmp_path / "kept"
    machine.metier("audit", "checkpoint", "--out", str(kept))
    for file in machine.state.glob("state.db*"):
        file.unlink()
    assert (
        "one of 6 entries is expected"
        in machine.metier("audit", "verify", "--since", str(kept), check=1).stderr
    )


def test_where_nothing_was_recorded_nothing_is_signed(machine: Machine) -> None:
    for command in (("checkpoint",), ("rotate-key",), ("prove", "1")):
        assert "Traceback" not in machine.metier("audit", *command, check=5).stderr
    assert not (machine.state / "keys").exists()


def test_no_file_is_overwritten_and_none_is_left_behind(machine: Machine) -> None:
    happened(machine)
    kept = machine.project / "kept"
    kept.write_text("mine", encoding="utf-8")
    assert "cannot be made" in machine.metier("audit", "checkpoint", "--out", str(kept), check=2).stderr
    assert kept.read_text(encoding="utf-8") == "mine"
    edit(machine, "DELETE FROM audit WHERE seq = 2")
    machine.metier("audit", "checkpoint", "--out", str(machine.project / "other"), check=5)
    assert not (machine.project / "other").exists()


def test_a_proof_is_checked_where_there_is_no_log(machine: Machine, tmp_path: Path) -> None:
    happened(machine)
    machine.metier("audit", "checkpoint", "--out", "one")
    happened(machine)
    machine.metier("audit", "checkpoint", "--out", "two")
    proof = machine.metier("audit", "prove", "2", "--checkpoint", "two").stdout
    grown = machine.metier("audit", "prove", "--from", "one", "--checkpoint", "two").stdout
    key = (machine.state / "keys" / "public.keys").read_text(encoding="utf-8")
    away = Machine(tmp_path / "away")
    for name, text in (
        ("proof", proof),
        ("grown", grown),
        ("key", key),
        ("forged", proof.replace("notes", "other")),
    ):
        (away.project / name).write_text(text, encoding="utf-8")
    assert "Record 2 is in the log" in away.metier("audit", "check", "proof", "--key", "key").stdout
    assert "record for record" in away.metier("audit", "check", "grown", "--key", "key").stdout
    assert "not record 2" in away.metier("audit", "check", "forged", "--key", "key", check=1).stderr
    assert "no public key" in away.metier("audit", "check", "proof", check=1).stderr
    assert "not a proof" in away.metier("audit", "check", "key", "--key", "key", check=2).stderr
    for wrong in (("prove",), ("prove", "2", "--from", "one")):
        assert "either" in machine.metier("audit", *wrong, check=2).stderr


def test_keys_are_rotated_and_older_checkpoints_still_count(machine: Machine) -> None:
    happened(machine)
    machine.metier("audit", "checkpoint", "--out", "one")
    said = machine.metier("audit", "rotate-key").stdout
    machine.metier("audit", "checkpoint", "--out", "two")
    assert said.splitlines()[-1] in (machine.state / "keys" / "public.keys").read_text(encoding="utf-8")
    for kept in ("one", "two"):
        machine.metier("audit", "verify", "--since", kept)
    (machine.state / "keys" / "signing.key").chmod(0o640)
    assert "chmod 600" in machine.metier("audit", "checkpoint", check=5).stderr


def test_records_are_found_and_shown_in_full(machine: Machine) -> None:
    happened(machine)
    assert len(machine.metier("audit", "search", "--tool", "notes/write").stdout.splitlines()) == 6
    found = [
        json.loads(line) for line in machine.metier("audit", "search", "CANARY", "--json").stdout.splitlines()
    ]
    assert [record["seq"] for record in found] == [1, 3, 5]
    assert "Only the newest 2" in machine.metier("audit", "search", "--limit", "2").stderr
    machine.metier("audit", "search", "nowhere", check=1)
    assert "record's number" in machine.metier("audit", "search", "--since", "yesterday", check=2).stderr
    for what in ("3", "4", "call-2"):
        said = machine.metier("audit", "show", what).stdout
        assert "skill_execution_started" in said
        assert "a canary" in said
        assert "=1+1" in said
    shown = [
        json.loads(line) for line in machine.metier("audit", "show", "call-2", "--json").stdout.splitlines()
    ]
    assert [record["kept"] for record in shown] == [{"arguments": {"text": "a canary"}}, {"result": "=1+1"}]
    assert "no record and no call" in machine.metier("audit", "show", "99", check=2).stderr


def test_the_log_is_exported_for_programs_and_for_spreadsheets(machine: Machine) -> None:
    assert machine.metier("audit", "export").stdout == ""
    happened(machine)
    lines = [json.loads(line) for line in machine.metier("audit", "export").stdout.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert lines[1]["details"]["inputs"] == {"text": "a canary"}
    assert "record" not in lines[0]
    stored = [
        json.loads(line)
        for line in machine.metier("audit", "export", "--stored", "--since", "5").stdout.splitlines()
    ]
    assert [json.loads(line["record"])["seq"] for line in stored] == [5, 6]
    rows = list(csv.DictReader(io.StringIO(machine.metier("audit", "export", "--format", "csv").stdout)))
    assert [row["outputs"] for row in rows] == ["", '"=1+1"'] * 3
    machine.metier("audit", "export", "--format", "csv", "--stored", check=2)


def test_what_was_kept_of_a_call_is_erased_for_good(machine: Machine) -> None:
    happened(machine)
    (machine.state / "calls").mkdir(mode=0o700)
    (machine.state / "calls" / "call-0.jsonl").write_text("its own words", encoding="utf-8")
    machine.metier("audit", "erase", "--call", "call-0", stdin="n\n", check=130)
    assert "a canary" in machine.metier("audit", "show", "call-0").stdout
    machine.metier("audit", "erase", "--call", "call-0", "--yes")
    assert "a canary" not in machine.metier("audit", "show", "call-0").stdout
    assert not (machine.state / "calls" / "call-0.jsonl").exists()
    assert "Nothing was left" in machine.metier("audit", "erase", "--call", "call-0", "--yes").stdout
    machine.metier("audit", "erase", "3", "--yes")
    machine.metier("audit", "verify")
    assert "either" in machine.metier("audit", "erase", check=2).stderr


def test_retention_erases_what_is_older_than_the_operator_said(machine: Machine) -> None:
    happened(machine, 2, clock="2020-01-01T00:00:00.000000Z")
    happened(machine, 1)
    assert "keep_days" in machine.metier("audit", "retain", check=2).stderr
    (machine.state / "metier.toml").write_text("[audit]\nkeep_days = 30\n", encoding="utf-8")
    assert "4 records" in machine.metier("audit", "retain", "--dry-run").stdout
    assert "a canary" in machine.metier("audit", "show", "1").stdout
    assert "4 records" in machine.metier("audit", "retain").stdout
    assert "0 records" in machine.metier("audit", "retain").stdout
    assert "a canary" not in machine.metier("audit", "show", "1").stdout
    assert "a canary" in machine.metier("audit", "show", "5").stdout
    machine.metier("audit", "verify")


def test_a_backup_comes_back_on_another_machine(machine: Machine, tmp_path: Path) -> None:
    assert "no state yet" in machine.metier("backup", "copy.db", check=5).stderr
    happened(machine)
    machine.metier("audit", "checkpoint", "--out", "kept")
    made = machine.json("backup", str(tmp_path / "copy.db"), "--with-keys", "--json")
    assert (made["ok"], made["records"]) == (True, 7)
    assert "something at" in machine.metier("backup", str(tmp_path / "copy.db"), check=5).stderr
    assert "not overwritten" in machine.metier("restore", str(tmp_path / "copy.db"), check=5).stderr
    away = Machine(tmp_path / "away")
    assert "metier resume" in away.metier("restore", str(tmp_path / "copy.db")).stdout
    away.metier("audit", "verify", "--since", str(machine.project / "kept"))
    refused = away.metier("call", "read_skill", '{"name": "writing-skills"}', check=3)
    assert "restored from a backup" in refused.stderr
    away.metier("resume")
    away.metier("audit", "checkpoint")
