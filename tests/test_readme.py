"""What the README shows is what a user gets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from machine import Machine

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def console_blocks() -> list[tuple[str, str]]:
    """Each command of the tour with what it prints, in order."""
    block = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert block is not None
    parts = re.split(r"^\$ (.*)\n", block[1], flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def test_the_tour_prints_what_it_says(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert len(console_blocks()) >= 5
    for command, expected in console_blocks():
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=machine.project,
            env={**machine.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        said = done.stdout if "Refused" not in expected else done.stderr
        assert said == expected, command


def test_there_are_exactly_two_commands_to_start_with() -> None:
    start = README[README.index("## Start") : README.index("## A tour")]
    commands = re.findall(r"```sh\n(.*?)```", start, re.DOTALL)
    assert len(commands) == 2
    assert commands[1].strip() == "make test"
    assert all(len(command.strip().splitlines()) == 1 for command in commands)


@pytest.mark.parametrize("page", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_every_page_the_readme_points_to_exists(page: str) -> None:
    assert (Path(__file__).parent.parent / page).exists()
