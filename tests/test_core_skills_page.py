"""What docs/core-skills.md shows is what the core skills do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from machine import BUNDLED, Machine

PAGE = (Path(__file__).parents[1] / "docs/core-skills.md").read_text(encoding="utf-8")


def commands() -> list[tuple[str, str]]:
    """Each command of the page with what it prints, in order."""
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    parts = [part for block in blocks for part in re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_command_prints_what_the_page_says(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert len(commands()) > 20
    for command, expected in commands():
        assert printed(machine, command) == expected, command


def test_every_skill_that_ships_is_on_the_page() -> None:
    named = set(re.findall(r"^\| \[?`([a-z_-]+)`", PAGE, re.MULTILINE))
    assert named >= BUNDLED


def printed(machine: Machine, command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=machine.project,
        env={**machine.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    return done.stdout
