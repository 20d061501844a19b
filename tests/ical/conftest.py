"""Desks with a calendar on them, and servers to keep calendars on."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ical_desk import Desk, Radicale
from loopback import make_authority


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    folder = tmp_path / "calendars"
    folder.mkdir()
    return Desk(folder, environ={"METIER_CALENDAR_FOLDER": str(folder), "METIER_TIMEZONE": "Europe/Berlin"})


@pytest.fixture
def radicale(tmp_path: Path) -> Iterator[Callable[..., Radicale]]:
    """Starts servers, each a real Radicale in a process of its own, and ends them."""
    running: list[subprocess.Popen[str]] = []

    def started(tls: bool = False) -> Radicale:
        folder = tmp_path / f"radicale-{len(running)}"
        folder.mkdir()
        (folder / "users").write_text("op:geheim\n")
        more: list[str] = []
        if tls:
            make_authority(folder).server("127.0.0.1")
            more = [str(next(folder.glob("server-*.pem")))]
        program: list[Any] = [sys.executable, Path(__file__).with_name("serve_radicale.py"), folder, *more]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        running.append(process)
        assert process.stdout is not None
        port = process.stdout.readline()  # ends with the process, should it fail
        assert port, "Radicale did not start"
        return Radicale(int(port), "https" if tls else "http", str(folder / "roots.pem") if tls else "")

    yield started
    for process in running:
        process.kill()
        process.communicate(timeout=20)
