"""What cannot be shown is said, never shown as empty; what nobody may have is not asked for; and what refuses everything stands on
every page."""

from pathlib import Path

import anyio
import pytest

from metier.record.search import Query, search
from seen_page import Seen, visiting
from serve_kit import House, Premises

EMPTY = (
    "no channel",
    "no schedule",
    "no trigger",
    "Nobody has written",
    "Everything arrived",
    "Nothing runs unasked",
)
PAGES = ("/", "/approvals", "/skills", "/record", "/policy", "/usage", "/people", "/channels", "/schedules")
BROKEN = '[[rule]]\ndecision = "deny"\nmatches = ["tea"]\n'


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def menu(page: Seen) -> set[str]:
    (found,) = page.all("nav")[:1]
    return {each.get("href") or "" for each in found.all("a")}


def refused(house: House) -> list[str]:
    found = search(house.engine.state.database, Query(event="skill_execution_blocked"), 50)
    return [f"{each.principal} {each.tool}" for each in found]


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_who_looks_through_the_whole_menu_leaves_no_refusal_on_the_record(
    premises: Premises, role: str
) -> None:
    async def main() -> None:
        premises.person("ada", role)
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "ada") as ada:
            for path in PAGES:  # whatever has to be opened first is
                await owner.see(path)
            assert menu(await owner.see("/")) == set(PAGES)
            his = menu(await ada.see("/"))
            assert {"/", "/record", "/people"} <= his
            assert not {"/channels", "/schedules"} & his
            for path in sorted(his):
                page = await ada.see(path)
                assert "cannot be shown" not in page.live.text, path
            for path in ("/channels", "/schedules"):
                page = await ada.see(path, 403)
                assert "it takes the right" in page.live.text.lower(), path
            assert refused(house) == []

    anyio.run(main)


def test_what_a_person_may_not_have_is_not_asked_for_and_said(premises: Premises) -> None:
    """Channels are for who may execute; what did not arrive is for operators."""

    async def main() -> None:
        premises.person("eve", "agent", "viewer")
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "eve") as eve:
            await owner.see("/channels")
            page = await eve.see("/channels")
            assert "it takes the right 'skills:trust', which you do not have" in page.live.text
            assert "Everything arrived" not in page.live.text
            assert refused(house) == []

    anyio.run(main)


def test_while_everything_is_refused_no_page_says_that_there_is_nothing(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            (premises.machine.state / "policy.toml").write_text(BROKEN, encoding="utf-8")
            for path in ("/channels", "/schedules", "/people"):
                page = await owner.see(path)
                assert "cannot be shown" in page.live.text, path
                assert not [each for each in EMPTY if each in page.live.text], path

    anyio.run(main)


def test_rules_that_cannot_be_used_are_said_on_every_page_until_they_can(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            file = premises.machine.state / "policy.toml"
            assert "refused" not in (await owner.see("/")).id("around").text
            file.write_text(BROKEN, encoding="utf-8")
            for path in (*PAGES, "/around", "/policy/replay"):
                said = (await owner.see(path)).id("around").text
                assert "Everything is refused" in said and "matches" in said, (path, said)
                assert str(premises.machine.state) not in said
            file.write_text(
                '[[rule]]\ndecision = "deny"\ntool = ["tea"]\nbecause = "no tea"\n', encoding="utf-8"
            )
            assert "refused" not in (await owner.see("/")).id("around").text
            await house.engine.refresh()
            file.unlink()
            assert "is gone" in (await owner.see("/")).id("around").text

    anyio.run(main)


def test_a_configuration_that_cannot_be_used_is_said_on_the_first_page(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            premises.configured("this is not toml [")
            said = (await owner.see("/")).id("around").text
            assert "Everything is refused" in said and "metier.toml" in said
            assert str(house.premises.machine.state) not in said
            premises.configured("")
            assert "refused" not in (await owner.see("/")).id("around").text

    anyio.run(main)
