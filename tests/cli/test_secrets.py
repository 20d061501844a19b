"""`metier secrets`."""

import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machine import Machine
from metier.host.secrets import Secrets

VALUE = "s3cr3t-value-9f27"


@pytest.mark.slow
def test_a_secret_is_kept_listed_replaced_and_forgotten(machine: Machine) -> None:
    assert machine.metier("secrets", "list").stdout == ""
    assert machine.metier("secrets", "key").stdout == "The key lies nowhere yet: no secret was kept.\n"
    assert machine.metier("secrets", "set", "TOKEN", stdin=f"{VALUE}\n").stdout == "✓ TOKEN is kept.\n"
    assert "TOKEN                        sealed     ✓" in machine.metier("secrets", "list").stdout
    home = str(machine.state)
    assert Secrets({}, home).reveal("TOKEN") == VALUE
    said = machine.metier("secrets", "set", "TOKEN", stdin="rotated-value").stdout
    assert said == "✓ TOKEN is replaced: the new one counts from now on.\n"
    assert Secrets({}, home).reveal("TOKEN") == "rotated-value"
    assert "keys/secrets.age" in machine.metier("secrets", "key").stdout
    assert machine.json("secrets", "list", "--json")["secrets"] == [{"name": "TOKEN", "kind": "sealed"}]
    machine.metier("secrets", "rm", "TOKEN")
    assert Secrets({}, home).reveal("TOKEN") is None
    assert "no secret 'TOKEN'" in machine.metier("secrets", "rm", "TOKEN", check=1).stderr
    kept = machine.metier("audit", "export", "--stored").stdout
    assert "secrets.set" in kept
    for text in (VALUE, "rotated-value", "BEGIN AGE"):
        assert text not in kept
    for each in machine.state.rglob("*"):
        if each.is_file():
            assert VALUE.encode() not in each.read_bytes(), each


def test_what_the_configuration_says_of_a_secret_is_shown_and_counts(machine: Machine) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "metier.toml").write_text(
        '[secrets]\nFILED = "file:///nowhere/key"\nOWN = "sealed://KEPT"\nRING = "keyring://metier/x"\n',
        encoding="utf-8",
    )
    machine.metier("secrets", "set", "KEPT", stdin=VALUE)
    rows = {line.split()[0]: line for line in machine.metier("secrets", "list").stdout.splitlines()}
    assert "✓" in rows["KEPT"]
    assert rows["OWN"].split()[1:] == ["sealed", "✓"]
    assert "✗" in rows["FILED"]
    assert "✗" in rows["RING"]
    done = machine.metier("secrets", "set", "FILED", stdin=VALUE)
    assert "that counts" in done.stderr


def test_sec_09_no_command_takes_a_secret_as_an_argument_and_a_bad_name_is_refused(machine: Machine) -> None:
    assert machine.metier("secrets", "set", "TOKEN", VALUE, check=2)
    assert machine.metier("secrets", "set", f"TOKEN={VALUE}", stdin="x", check=2)
    assert machine.metier("secrets", "set", "../x", stdin="x", check=2)
    assert "empty" in machine.metier("secrets", "set", "TOKEN", check=2).stderr
    assert not machine.state.exists() or not list(machine.state.rglob("*.age"))


def test_at_a_terminal_it_is_asked_for_twice_and_not_seen(machine: Machine) -> None:
    control, terminal = pty.openpty()
    program = Path(sys.executable).with_name("metier")
    with subprocess.Popen(
        [str(program), "secrets", "set", "TOKEN"],
        cwd=machine.project,
        env=machine.environ,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        seen = _until(control, b"Value of TOKEN")
        os.write(control, f"{VALUE}\n".encode())
        seen += _until(control, b"Once more")
        os.write(control, f"{VALUE}\n".encode())
        seen += _until(control, b"is kept")
        assert process.wait(30) == 0
    os.close(control)
    assert VALUE.encode() not in seen
    assert Secrets({}, str(machine.state)).reveal("TOKEN") == VALUE


def _until(control: int, wanted: bytes) -> bytes:
    seen = b""
    end = time.monotonic() + 30
    while wanted not in seen:
        assert time.monotonic() < end, seen
        if select.select([control], [], [], 1.0)[0]:
            seen += os.read(control, 4096)
    return seen
