"""An MCP server is trusted by operations as it is at the terminal: its bytes first, then what it told, and exactly that."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_kit import manifest, reads
from office import APPROVER, OPERATOR, VIEWER, Office

pytestmark = pytest.mark.timeout(120)
READS: dict[str, Any] = {name: {"effect": "read"} for name in ("echo", "count", "extra")}


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    made = Office(tmp_path, monkeypatch, boxed=False)
    folder = tmp_path / "shared"
    folder.mkdir()
    may = {"reads": [*sorted(reads()), str(folder)]}
    manifest(made.machine, "odd", how="file", args=[str(folder / "odd.json")], permissions=may, tools=READS)
    return made


def says(office: Office, **tools: Any) -> None:
    """From its next start on."""
    (office.machine.top / "shared" / "odd.json").write_text(json.dumps(tools), encoding="utf-8")


def test_its_bytes_are_trusted_then_its_tools_are_looked_at_and_let_in(office: Office) -> None:
    says(office, echo="Says it again.")

    async def act(office: Office) -> None:
        seen = await office.ask("skills.review", OPERATOR, name="odd", ask=True)
        assert (seen["step"], seen["tools"], seen["told"]) == ("trust", [], "")
        assert "not trusted yet" in seen["problem"]  # nothing was run
        first = await office.ask("skills.trust", OPERATOR, name="odd", digest=seen["digest"])
        assert (first["step"], first["usable"]) == ("ask", False)
        asked = await office.ask("skills.review", OPERATOR, name="odd", ask=True)
        assert (asked["step"], asked["problem"]) == ("let_in", "")
        assert [each["name"] for each in asked["tools"]] == ["odd/echo"]
        assert asked["tools"][0]["description"] == "Says it again."
        assert (await office.ask("skills.review", name="odd"))["tools"] == []  # looked at is not let in
        done = await office.ask(
            "skills.trust", OPERATOR, name="odd", digest=asked["digest"], told=asked["told"]
        )
        assert (done["step"], done["usable"]) == ("done", True)
        again = await office.ask("skills.review", VIEWER, name="odd")
        assert (again["step"], again["told"]) == ("done", asked["told"])
        assert [each["name"] for each in again["tools"]] == ["odd/echo"]

    office.run(act)


def test_only_what_he_looked_at_is_let_in(office: Office) -> None:
    says(office, echo="Says it again.")

    async def act(office: Office) -> None:
        seen = await office.ask("skills.review", name="odd")
        await office.ask("skills.trust", name="odd", digest=seen["digest"])
        first = await office.ask("skills.review", name="odd", ask=True)
        says(office, echo="Says it again.", count="Counts, and tells a stranger.")
        office.engine.running.stop("odd")
        second = await office.ask("skills.review", name="odd", ask=True)
        assert first["told"] != second["told"]
        code, why = await office.no("skills.trust", name="odd", digest=first["digest"], told=first["told"])
        assert (code, "look again" in why) == ("E_SKILLS_CHANGED", True)
        code, _ = await office.no(
            "skills.trust", name="odd", digest=first["digest"], told="sha256:" + "0" * 64
        )
        assert code == "E_SKILLS_CHANGED"
        assert (await office.ask("skills.review", name="odd"))["step"] == "ask"
        await office.ask("skills.trust", name="odd", digest=second["digest"], told=second["told"])
        says(office, echo="Says it again.", count="Counts.", extra="More.")
        office.engine.running.stop("odd")
        third = await office.ask("skills.review", name="odd", ask=True)
        assert third["step"] == "let_in"
        assert {each["name"] for each in third["tools_changed"]} == {"count", "extra"}

    office.run(act)


def test_who_may_not_trust_has_no_server_run(office: Office) -> None:
    says(office, echo="Says it again.")

    async def act(office: Office) -> None:
        seen = await office.ask("skills.review", name="odd")
        await office.ask("skills.trust", name="odd", digest=seen["digest"])
        for by in (VIEWER, APPROVER):
            code, why = await office.no("skills.review", by, name="odd", ask=True)
            assert (code, "skills:trust" in why) == ("E_FORBIDDEN", True)

    office.run(act)
    assert not [each for each in office.records() if each.tool == "operator.probe"]


def test_no_server_is_run_while_everything_is_stopped(office: Office) -> None:
    says(office, echo="Says it again.")

    async def act(office: Office) -> None:
        seen = await office.ask("skills.review", name="odd")
        await office.ask("skills.trust", name="odd", digest=seen["digest"])
        await office.ask("runtime.stop")
        asked = await office.ask("skills.review", name="odd", ask=True)
        assert asked["step"] == "ask"
        assert "everything is stopped" in asked["problem"]

    office.run(act)


def test_after_its_trust_was_taken_back_its_tools_are_looked_at_anew(office: Office) -> None:
    says(office, echo="Says it again.")

    async def act(office: Office) -> None:
        seen = await office.ask("skills.review", name="odd")
        await office.ask("skills.trust", name="odd", digest=seen["digest"])
        asked = await office.ask("skills.review", name="odd", ask=True)
        await office.ask("skills.trust", name="odd", digest=asked["digest"], told=asked["told"])
        await office.ask("skills.untrust", name="odd")
        again = await office.ask("skills.review", name="odd")
        assert (again["step"], again["told"]) == ("trust", "")
        done = await office.ask("skills.trust", name="odd", digest=again["digest"])
        assert (done["step"], done["usable"]) == ("ask", False)

    office.run(act)
