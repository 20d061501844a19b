"""The approver at the terminal: who stops the command has decided nothing, and who is asked about a file sees which one."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from machine import Machine, write_skill

READ = '{"name": "tea"}'
RULES = """
[[rule]]
decision = "ask"
because = "to be sure"
tool = "read_skill"

[[rule]]
decision = "ask"
because = "to be sure"
tool = "operator.run"
"""
TAKE_THE_TERMINAL = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell that starts the tests in the background has them ignore it
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Without one of its own a command gets no Ctrl-C."""
SOON = 20.0


class Terminal:
    """A command at a terminal of its own."""

    def __init__(self, ours: int, process: "subprocess.Popen[bytes]") -> None:
        self._ours = ours
        self.process = process
        self.said = ""

    def until(self, text: str, *, times: int = 1) -> None:
        """Wait until it has said this so many times."""
        give_up = time.monotonic() + SOON
        while self.said.count(text) < times:
            assert time.monotonic() < give_up, (text, self.said)
            assert self._more(), (text, self.said)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ended(self) -> int:
        """How it ends by itself, with nothing more typed."""
        give_up = time.monotonic() + SOON
        while self._more() and time.monotonic() < give_up:
            pass
        status = self.process.wait(SOON)
        assert "Traceback" not in self.said, self.said
        return status

    def _more(self) -> bool:
        if not select.select([self._ours], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other side is closed
            return False
        self.said += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def at_a_terminal(machine: Machine, *args: str) -> Generator[Terminal]:
    ours, theirs = pty.openpty()
    program = str(Path(sys.executable).with_name("metier"))
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_THE_TERMINAL, program, *args],
        cwd=machine.project,
        env={**machine.environ, "TERM": "xterm", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture
def asking(machine: Machine) -> Machine:
    """Reading a skill and running a file have to be asked first."""
    write_skill(machine.skills / "tea", body="Boil, then pour.")
    file = machine.state / "policy.toml"
    file.write_text(RULES, encoding="utf-8")
    file.chmod(0o600)
    (machine.project / "own.py").write_text("result = 'poured'\n", encoding="utf-8")
    return machine


def states(machine: Machine) -> list[str]:
    return [each["state"] for each in machine.json("approvals", "list", "--all", "--json")]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "told to go"])
def test_who_stops_the_command_while_it_asks_has_decided_nothing_whatever_is_typed_then(
    asking: Machine, how: signal.Signals
) -> None:
    with at_a_terminal(asking, "call", "read_skill", READ) as terminal:
        terminal.until("[o]nce")
        if how is signal.SIGINT:
            terminal.type("\x03")
        else:
            terminal.process.terminate()
        terminal.until("Stopped.")
        terminal.type("o\n")
        assert terminal.ended() == 128 + how
    assert states(asking) == ["pending"]


def test_a_command_that_is_stopped_while_it_asks_ends_by_itself(asking: Machine) -> None:
    with at_a_terminal(asking, "call", "read_skill", READ) as terminal:
        terminal.until("[a]lways")
        terminal.type("a\n")
        terminal.until("Give it?")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert states(asking) == ["pending"]
    assert asking.json("grants", "list", "--json") == []


def test_what_is_no_answer_is_asked_again(asking: Machine) -> None:
    with at_a_terminal(asking, "call", "read_skill", READ) as terminal:
        terminal.until("[o]nce")
        terminal.type("yes\n")
        terminal.until("none of o, a, d, l")
        terminal.until("[l]: ", times=2)
        terminal.type("o\n")
        assert terminal.ended() == 0
    assert "Boil, then pour." in terminal.said


def test_who_is_asked_about_a_file_sees_its_name_language_and_bytes_and_that_no_skill_speaks(
    asking: Machine,
) -> None:
    with at_a_terminal(asking, "run", "own.py") as terminal:
        terminal.until("[o]nce")
        terminal.type("o\n")
        assert terminal.ended() == 0
    assert 'file           "own.py", python sha256:' in terminal.said
    assert 'Metier says    "Run a file of the owner\'s own."' in terminal.said
    assert "the skill says" not in terminal.said
    assert "poured" in terminal.said
    assert states(asking) == ["spent"]


@pytest.mark.parametrize("typed", ["l\n", "\x03", "\x04"], ids=["later", "ctrl-c", "end of input"])
def test_a_file_that_nobody_let_run_is_asked_about_no_longer_than_its_asker_lives(
    asking: Machine, typed: str
) -> None:
    with at_a_terminal(asking, "run", "own.py") as terminal:
        terminal.until("[o]nce")
        assert states(asking) == ["pending"]
        terminal.type(typed)
        assert terminal.ended() != 0
    assert states(asking) == ["void"]
    assert "poured" not in terminal.said
    asking.metier("audit", "verify")


def test_a_file_is_decided_only_where_it_is_asked_about(asking: Machine) -> None:
    with at_a_terminal(asking, "run", "own.py") as terminal:
        terminal.until("[o]nce")
        [waiting] = asking.json("approvals", "list", "--json")
        said = asking.metier("approvals", "approve", waiting["id"], check=1).stderr
        assert "only the process that asked has the file" in said
        assert "Nothing was changed" in said
        shown = asking.metier("approvals", "show", waiting["id"]).stdout
        assert f"approvals approve {waiting['id']}" not in shown
        terminal.type("o\n")
        assert terminal.ended() == 0
    assert "poured" in terminal.said


def test_always_for_a_file_is_for_these_bytes_and_says_so(asking: Machine) -> None:
    with at_a_terminal(asking, "run", "own.py") as terminal:
        terminal.until("[a]lways")
        terminal.type("a\n")
        terminal.until("Give it?")
        assert 'file           "own.py" sha256:' in terminal.said
        terminal.type("y\n")
        assert terminal.ended() == 0
    [grant] = asking.json("grants", "list", "--json")
    assert grant["file"] == "own.py"
    assert (
        f'file           "own.py" {grant["skill_digest"]}, no other bytes'
        in asking.metier("grants", "list").stdout
    )
    assert "poured" in asking.metier("run", "own.py").stdout
    (asking.project / "own.py").write_text("result = 'spilled'\n", encoding="utf-8")
    done = asking.metier("run", "own.py", check=3)
    assert "approval_required" in done.stderr
    assert "spilled" not in done.stdout


@pytest.mark.parametrize("typed", ["o\n", "a\ny\n", "y\n" * 5])
def test_what_was_typed_before_the_question_is_no_answer_to_it(asking: Machine, typed: str) -> None:
    with at_a_terminal(asking, "call", "read_skill", READ) as terminal:
        terminal.type(typed)
        terminal.until("[l]ater")
        time.sleep(0.5)
        assert terminal.process.poll() is None, "nobody decided anything yet"
        terminal.type("l\n")
        assert terminal.ended() != 0
    assert "Boil" not in terminal.said
    assert json.loads(asking.metier("grants", "list", "--json").stdout) == []
    [request] = json.loads(asking.metier("approvals", "list", "--json").stdout)
    assert request["state"] == "pending"


def test_what_was_typed_behind_an_answer_does_not_answer_the_next_question(asking: Machine) -> None:
    with at_a_terminal(asking, "call", "read_skill", READ) as terminal:
        terminal.until("[l]ater")
        terminal.type("a\ny\n")
        terminal.until("Give it?")
        time.sleep(0.5)
        assert terminal.process.poll() is None, "what is to be given is to be seen first"
        terminal.type("n\n")
        terminal.until("[l]: ", times=2)
        terminal.type("l\n")
        terminal.ended()
    assert json.loads(asking.metier("grants", "list", "--json").stdout) == []
