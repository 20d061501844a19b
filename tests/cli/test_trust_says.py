"""`metier skills trust` says both: that it is trusted, and whether it can be used."""

from pathlib import Path

import pytest

from machine import Machine, write_skill


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_skill_that_is_trusted_and_lacks_a_program_is_said_to_lack_it(machine: Machine) -> None:
    metadata = '{"openclaw": {"requires": {"bins": ["no-such-program"]}}}'
    write_skill(machine.project / "skills" / "tea", metadata=metadata)
    said = machine.metier("skills", "trust", "tea", "--yes").stdout
    assert "✓ tea is trusted." in said
    assert "! It cannot be used yet (unavailable)" in said
    assert "no-such-program" in said.splitlines()[-1]


def test_a_skill_that_can_be_used_is_said_to_be_trusted_and_no_more(machine: Machine) -> None:
    write_skill(machine.project / "skills" / "tea")
    said = machine.metier("skills", "trust", "tea", "--yes").stdout
    assert said.splitlines()[-1] == "✓ tea is trusted."
