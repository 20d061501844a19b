"""`metier calls log`: the words of a skill, shown so that they can be nothing else."""

import json
import os

import anyio
import pytest

from machine import Machine
from metier.host.call_log import CallLog
from metier.host.log import Log

ID = "call_0123456789abcdef01234567"


def write(machine: Machine, *entries: object) -> None:
    async def main() -> None:
        for entry in entries:
            assert await CallLog(str(machine.state), ID, "notes").append(entry) is None  # type: ignore[arg-type]

    anyio.run(main)


def test_the_log_of_a_call_is_printed_in_order(machine: Machine) -> None:
    async def say() -> None:
        log = Log(ID, "notes", CallLog(str(machine.state), ID, "notes"))
        await log.answer({"level": "warn", "message": "slow today", "meta": {"ms": 12}})

    write(machine, {"type": "note", "text": "ü"}, "plain words")
    anyio.run(say)
    lines = machine.metier("calls", "log", ID).stdout.splitlines()
    assert [line.partition(" notes: ")[2] for line in lines] == [
        '{"type": "note", "text": "ü"}',
        "plain words",
        'warn: slow today {"ms": 12}',
    ]
    said = [json.loads(line) for line in machine.metier("calls", "log", ID, "--json").stdout.splitlines()]
    assert [each["entry"] for each in said][:2] == [{"type": "note", "text": "ü"}, "plain words"]
    assert {(each["source"], each["skill"]) for each in said} == {("skill", "notes")}


def test_what_moves_a_cursor_or_hides_is_spelled_out(machine: Machine) -> None:
    write(machine, "a\x1b[2Jb\u202ec\nd\x9be", {"k": "\x1b]0;x\x07"})
    for more in ([], ["--json"]):
        out = machine.metier("calls", "log", ID, *more).stdout
        assert len(out.splitlines()) == 2
        assert not set(out) & set("\x1b\u202e\x9b\x07")
    assert "\\u{1b}[2Jb\\u{202e}c d" in machine.metier("calls", "log", ID).stdout


@pytest.mark.parametrize("name", ["call_unknown", "../state", "..", "a/b", "", "x\n", "."])
def test_an_unknown_id_is_said_and_nothing_else_is_read(machine: Machine, name: str) -> None:
    write(machine, "something")
    (machine.state / "state.jsonl").write_text('{"at":"","source":"","skill":"","entry":"PWNED"}\n')
    done = machine.metier("calls", "log", name, check=2)
    assert "There is no log of a call" in done.stderr
    assert done.stdout == ""


def test_a_last_line_that_was_cut_off_is_said_and_the_others_are_shown(machine: Machine) -> None:
    write(machine, "something")
    file = machine.state / "calls" / f"{ID}.jsonl"
    file.write_bytes(file.read_bytes() + b'{"half')
    done = machine.metier("calls", "log", ID)
    assert "something" in done.stdout
    assert "cut off" in done.stderr


def test_a_log_that_was_tampered_with_is_said(machine: Machine) -> None:
    write(machine, "something")
    file = machine.state / "calls" / f"{ID}.jsonl"
    file.write_bytes(file.read_bytes() + b'{"half\n')
    assert "was changed" in machine.metier("calls", "log", ID, check=5).stderr
    file.unlink()
    os.symlink("/etc/passwd", file)
    assert "symbolic link" in machine.metier("calls", "log", ID, check=5).stderr
