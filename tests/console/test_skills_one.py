"""The page of one skill: what a person must see before he trusts it, and the buttons for who may."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import write_skill
from metier.model.job import Report
from metier.record.trust import TrustStore
from seen_page import Seen, visiting
from serve_kit import House, Premises

NEEDS = '{"openclaw": {"requires": {"bins": ["%s"]}}}'


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    for name in ("git", "curl"):
        made.machine.program(name)
    return made


def tea(premises: Premises, *, binary: str = "git", body: str = "Pour.") -> Path:
    """In the project, where nobody vouches for it."""
    folder = premises.machine.project / "skills" / "tea"
    return write_skill(folder, version="1.0", metadata=NEEDS % binary, body=body)


def stands(page: Seen) -> str:
    return page.id("stands-title").text.removeprefix("How it stands: ")


def buttons(page: Seen) -> list[str]:
    return [each.words for each in page.forms]


async def reloaded(house: House) -> None:
    """As the watcher of a server does it a moment after something changed."""
    await house.engine.reload()


def test_a_skill_is_trusted_by_exactly_the_digest_that_was_shown(premises: Premises) -> None:
    tea(premises)

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/tea")
            assert stands(page) == "waits for trust"
            text = page.section("stands-title").text
            for word in (
                "run git; no network",
                "1.0",
                "sha256:",
                str(premises.machine.project),
                "openclaw, from SKILL.md",
            ):
                assert word in text, word
            assert "Pour." in page.section("says-title").whole
            form = page.form("Trust exactly these bytes")
            shown = [each.text for each in page.all("code") if each.text.startswith("sha256:")]
            assert form.body()["digest"] in shown and form.body()["name"] == "tea"
            done = await owner.send(form)
            assert (done["outcome"], done["value"]["usable"]) == ("completed", True), done
            after = await owner.see("/skills/tea")
            assert stands(after) == "can be used" and "Trusted." in after.section("trust-title").text
            assert "Trust exactly" not in str(buttons(after))
            back = await owner.send(after.form("Take the trust back"))
            assert back["value"]["trusted"] is False
            assert stands(await owner.see("/skills/tea")) == "waits for trust"

    anyio.run(main)


def test_what_changed_since_it_was_trusted_is_shown_and_the_old_digest_trusts_nothing(
    premises: Premises,
) -> None:
    folder = tea(premises)
    (folder / "old.md").write_text("old", encoding="utf-8")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            old = (await owner.see("/skills/tea")).form("Trust exactly")
            await owner.send(old)
            tea(premises, binary="curl", body="Poison.")
            (folder / "old.md").unlink()
            (folder / "new.md").write_text("new", encoding="utf-8")
            await reloaded(house)
            page = await owner.see("/skills/tea")
            assert stands(page) == "waits for trust"
            text = page.section("trust-title").text
            for word in ("Now it may also run curl", "It no longer may run git", "Added: 1 file new.md", "Removed: 1 file old.md",
                         "Changed: 1 file SKILL.md", "Last trusted"):  # fmt: skip
                assert word in text, (word, text)
            refused = await owner.send(old)
            assert (refused["outcome"], refused["value"]["code"]) == ("failed", "E_SKILLS_CHANGED")
            assert (await owner.send(page.form("Trust exactly")))["outcome"] == "completed"

    anyio.run(main)


def test_who_may_only_look_sees_everything_and_no_button(premises: Premises) -> None:
    tea(premises)
    premises.person("vera", "viewer")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "vera") as vera:
            theirs, page = await owner.see("/skills/tea"), await vera.see("/skills/tea")
            assert buttons(theirs) and not buttons(page)
            assert "skills:trust" in page.section("trust-title").text and "run git" in page.live.text
            # What is not shown is not possible either: the operation asks for the right itself.
            done = await vera.send(theirs.form("Trust exactly"))
            assert (done["outcome"], done["code"]) == ("refused", "forbidden")

    anyio.run(main)


def test_any_skill_is_switched_off_with_a_word_and_on_again(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/fs_read")
            assert (
                stands(page) == "can be used" and "trusted by the release" in page.section("trust-title").text
            )
            done = await owner.send(page.form("Switch it off at once"), why="it smells of <gas>")
            assert done["value"]["off"] is True
            off = await owner.see("/skills/fs_read")
            assert stands(off) == "switched off" and "it smells of <gas>" in off.section("stands-title").text
            assert (await owner.send(off.form("Switch it on again")))["value"]["lifted"] is True
            assert stands(await owner.see("/skills/fs_read")) == "can be used"

    anyio.run(main)


def test_its_tools_can_be_read_with_what_they_take_and_may(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/fs_write")
            (tool,) = page.section("tools-title").all("details")
            for word in (
                "fs_write/execute",
                "act",
                "risk",
                "write workspace/logs",
                "approve every call",
                '"overwrite": {',
                "timeout 30",
            ):
                assert word in tool.text, (word, tool.text)
            assert page.section("says-title").all("pre")[0].whole.startswith("{")  # its manifest, as it is
            assert stands(await owner.see("/skills/writing-skills")) == "can be used"
            await owner.see("/skills/nothing-is-called-that", 404)

    anyio.run(main)


def test_its_last_calls_lead_to_their_story(premises: Premises) -> None:
    premises.box._report = Report(ending="returned", value={"success": True, "outputs": {"content": "tea"}})

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            assert "None among" in (await owner.see("/skills/fs_read")).section("calls-title").text
            call = {"tool": "fs_read", "arguments": {"path": "memory/a.md"}}
            made = (await owner.it.post("/api/v1/calls", call)).json()
            part = (await owner.see("/skills/fs_read")).section("calls-title")
            assert [each.get("href") for each in part.all("a")] == [f"/record/calls/{made['call_id']}"]

    anyio.run(main)


def test_looking_at_skills_trusts_and_changes_nothing(premises: Premises) -> None:
    tea(premises)
    kept: list[Any] = []

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            store = TrustStore(house.engine.state.database)
            for _ in range(2):
                for path in ("", "/files", "/files?path=SKILL.md", "/settings", "/try"):
                    await owner.see(f"/skills/tea{path}")
                found = store.all()
                kept.append((found.trusted, found.disabled, found.revoked))
            assert kept[0] == kept[1] == (frozenset(), {}, frozenset()) and not premises.box.jobs
            assert stands(await owner.see("/skills/tea")) == "waits for trust"

    anyio.run(main)


def test_others_of_the_same_name_are_named_with_the_reason(premises: Premises) -> None:
    write_skill(premises.machine.skills / "plain", description="The first.")
    write_skill(premises.machine.project / "skills" / "plain", description="The second.")
    write_skill(premises.machine.skills / "half", description="")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/plain")
            assert "The first." in page.section("stands-title").text
            other = page.section("others-title").text
            assert str(premises.machine.project) in other and "comes first and has the same name" in other
            broken = await owner.see("/skills/half")
            assert stands(broken) == "refused" and "description" in broken.section("stands-title").text
            assert "Trust exactly" not in str(buttons(broken))

    anyio.run(main)


def test_what_waits_in_the_place_of_one_that_ships_is_told_apart_from_it(premises: Premises) -> None:
    folder = write_skill(
        premises.machine.project / "skills" / "fs_read", description="Mine.", metadata=NEEDS % "curl"
    )

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/fs_read")
            assert "run curl" not in page.section("stands-title").text
            text = page.section("trust-title").text
            assert "in the place of the one that ships" in text and str(folder) in text and "run curl" in text

    anyio.run(main)


def test_what_a_server_may_do_stands_there_before_it_is_run(premises: Premises) -> None:
    folder = premises.machine.project / "skills" / "odd"
    folder.mkdir(parents=True)
    about = {"description": "Odd.", "command": "git", "permissions": {"hosts": ["api.example.com"]}}
    (folder / "mcp_server.json").write_text(json.dumps(about), encoding="utf-8")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/odd")
            assert "reach api.example.com" in page.section("stands-title").text
            await owner.send(page.form("Trust exactly"))
            page = await owner.see("/skills/odd")
            assert page.form("Run it and ask").body() == {"name": "odd", "ask": True}
            assert "reach api.example.com" in page.section("stands-title").text and not premises.box.jobs
            let_in = page.id("let-in")  # shown once it told something, and filled with that
            assert let_in.get("hidden") is not None and page.form("Let in what it told").body()["told"] == ""

    anyio.run(main)
