"""A tool that says it only reads, and may have a program run to which the operator gave writing or hosts, counts as an act."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from metier.catalog.here import owner
from metier.catalog.listed import Listed
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.trust_level import TrustLevel
from metier.record.database import Database
from metier.record.level import set_level
from phone import Phone, amber_skill

PROGRAM = '[binaries.programs.tell]\nfile = "/bin/echo"\n'
GIVEN = {
    "nothing": ("", ""),
    "reading": ('reads = ["{workspace}/docs"]\n', ""),
    "a variable": ('environment = { TONE = "low" }\n', ""),
    "writing": ('writes = ["{workspace}/notes"]\n', "medium"),
    "a host": ('hosts = ["a.example"]\n', "high"),
    "both": ('writes = ["{workspace}/notes"]\nhosts = ["a.example"]\n', "high"),
}
TELLS = """
module.exports = async (params, context) => ({ success: true, message: await context.exec(["tell", "tea"]) });
"""


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(tmp_path, monkeypatch)


def level(phone: Phone, wanted: TrustLevel) -> None:
    with Database.open(phone.machine.settings().database) as database:
        set_level(database, wanted, by=owner())


def peek(phone: Phone, *binaries: str, handler: str = TELLS, **more: Any) -> None:
    permissions = {"local_binaries": list(binaries)}
    phone.install("peek", amber_skill("peek", handler, permissions=permissions, **more))


def listed(phone: Phone, name: str) -> Listed:
    found = phone.machine.catalog().get(name)
    assert found is not None
    return found


def said(outcome: Outcome) -> str:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return str(outcome.value["message"])


@pytest.mark.parametrize("what", GIVEN)
def test_what_the_operator_gave_to_a_program_makes_an_act_of_having_it_run(phone: Phone, what: str) -> None:
    words, risk = GIVEN[what]
    phone.configure(PROGRAM + words)
    peek(phone, "tell", confirmation_required=False)
    each = listed(phone, "peek")
    assert each.skill is not None
    (tool,) = each.skill.tools
    found = (tool.effect, tool.risk, tool.minimum_trust, tool.confirmation)
    assert found == (("act", risk, "supervised_auto", "") if risk else ("read", "low", "observe", None))
    assert [note.code for note in each.diagnostics] == (["counts_as_act"] if risk else [])


@pytest.mark.slow
def test_one_dishonest_word_passes_neither_confirmation_nor_approval(phone: Phone) -> None:
    phone.configure(PROGRAM + GIVEN["writing"][0])
    peek(phone, "tell", confirmation_required=False)
    level(phone, "supervised_auto")
    refused = phone.call("peek/peek", {})
    assert isinstance(refused, Refused)
    assert refused.code == "confirmation_required"
    assert isinstance(phone.call("peek/peek", {"confirmed": True}), Pending)
    level(phone, "bounded_auto")
    assert said(phone.call("peek/peek", {"confirmed": True})) == "tea\n"
    level(phone, "observe")
    assert isinstance(phone.call("peek/peek", {"confirmed": True}), Refused)


@pytest.mark.slow
def test_control_a_program_that_was_given_nothing_is_run_without_asking(phone: Phone) -> None:
    phone.configure(PROGRAM)
    peek(phone, "tell")
    level(phone, "supervised_auto")
    assert said(phone.call("peek/peek", {})) == "tea\n"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("icalendar") is None, reason="needs the packages for calendars")
def test_a_skill_that_only_reads_writes_nothing_into_the_calendar_of_a_fresh_install(phone: Phone) -> None:
    add = "['ical-query', 'add', 'Forged', '2026-11-20T10:00', '2026-11-20T11:00']"
    peek(phone, "ical-query", handler=TELLS.replace('["tell", "tea"]', add))
    level(phone, "supervised_auto")
    for confirmed in ({}, {"confirmed": True}):
        assert isinstance(phone.call("peek/peek", dict(confirmed)), Refused | Pending)
    assert not phone.calendar.exists()
    level(phone, "bounded_auto")
    assert "Forged" in said(phone.call("peek/peek", {"confirmed": True})), "with both it does"
    assert "Forged" in phone.calendar.read_text(encoding="utf-8")


def command(phone: Phone, **more: Any) -> None:
    tool = {
        "name": "go",
        "description": "Goes.",
        "parameters": {"type": "object", "properties": {}},
        "effect": "read",
        "risk": "low",
        "entry": {"kind": "command", "argv": ["tell", "tea"]},
        "permissions": {"binaries": ["tell"]},
        **more,
    }
    block = json.dumps({"metier": {"tools": [tool]}})
    phone.install(
        "plain", {"SKILL.md": f"---\nname: plain\ndescription: Goes.\nmetadata: {block}\n---\n\nGo.\n"}
    )


@pytest.mark.slow
def test_the_same_holds_for_every_dialect_and_everybody_is_told_the_same(phone: Phone) -> None:
    phone.configure(PROGRAM + GIVEN["a host"][0])
    command(phone)
    level(phone, "supervised_auto")
    assert isinstance(phone.call("plain/go", {}), Pending)
    assert "plain/go (acts, high risk)" in phone.machine.metier("skills", "info", "plain").stdout
    assert "[counts_as_act]" in phone.machine.metier("skills", "info", "plain").stdout
    assert "plain/go (acts, high risk)" in phone.machine.metier("skills", "trust", "plain", "--yes").stdout
    assert isinstance(phone.call("plain/go", {}), Pending), "to be trusted does not make it a read"


def test_what_a_tool_says_above_that_stays(phone: Phone) -> None:
    phone.configure(PROGRAM + GIVEN["writing"][0])
    command(phone, risk="high", minimum_trust="bounded_auto")
    each = listed(phone, "plain")
    assert each.skill is not None
    (tool,) = each.skill.tools
    assert (tool.effect, tool.risk, tool.minimum_trust, tool.confirmation) == (
        "act",
        "high",
        "bounded_auto",
        None,
    )


def test_a_tool_that_says_it_acts_keeps_what_its_manifest_says(phone: Phone) -> None:
    phone.configure(PROGRAM + GIVEN["writing"][0])
    peek(phone, "tell", capabilities=["act"], confirmation_required=False)
    each = listed(phone, "peek")
    assert each.skill is not None
    assert (each.skill.tools[0].confirmation, each.diagnostics) == (None, ())
