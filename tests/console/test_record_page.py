"""Looking through the record as people do: by a part of a name, by a day, and without their own looking around."""

from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

from seen_page import Seen, Visitor, visiting
from serve_kit import READ, WRITE, House, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def rows(page: Seen) -> list[str]:
    tables = [each for each in page.live.walk() if each.get("aria-label") == "Records"]
    return [row.all("td")[2].text for table in tables for row in table.all("tbody")[0].all("tr")]


async def found(by: Visitor, **wanted: str) -> list[str]:
    return rows(await by.see(f"/record?{urlencode(wanted)}"))


async def happened(house: House) -> None:
    async with house.client(house.premises.agent()) as client:
        await client.post("/api/v1/calls", json=READ)
        await client.post("/api/v1/calls", json=WRITE)


def test_a_part_of_a_name_finds_who_and_what_is_meant(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await happened(house)
            assert await found(owner, principal="BOT", tool="write") == [
                "agent:bot asked for fs_write/execute"
            ]
            assert len(await found(owner, tool="READ_", principal="bot")) == 2
            assert await found(owner, principal="bot", tool="rea%d") == []
            assert await found(owner, principal="nobody") == []

    anyio.run(main)


def test_text_with_an_underscore_in_it_is_found(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await happened(house)
            assert "agent:bot ran read_skill" in await found(owner, text="read_skill")
            assert await found(owner, text="readXskill") == []

    anyio.run(main)


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("said", ["yesterday", "15.11.2026", "2026-1-1", "--", "20261115T"])
def test_what_is_no_day_is_said_in_words_and_stays_in_the_form(
    premises: Premises, name: str, said: str
) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await happened(house)
            page = await owner.see(f"/record?{urlencode({name: said, 'tool': 'write'})}")
            assert f"{said} is no day. Write it as 2026-11-15" in page.live.text
            typed = {each.get("name"): each.get("value") for each in page.live.all("input")}
            assert (typed[name], typed["tool"]) == (said, "write")
            assert "regex" not in page.live.text

    anyio.run(main)


def test_days_times_and_numbers_bound_what_is_found(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await happened(house)
            for since, some in (
                ("2001-01-01", True),
                ("2001-01-01T10:00", True),
                ("1", True),
                ("2999-01", False),
            ):
                assert bool(await found(owner, since=since)) is some, since
            page = await owner.see("/record?since=2001-01-01")
            kinds = {each.get("name"): each.get("type") for each in page.live.all("input")}
            assert kinds["since"] == kinds["until"] == "date"

    anyio.run(main)


def test_what_people_only_looked_at_is_left_out_and_one_press_away(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await happened(house)
            await owner.see("/people")
            await owner.it.post("/api/v1/modules/runtime/stop", {"why": "drill"})
            await owner.it.post("/api/v1/modules/runtime/resume", {})
            told = await found(owner)
            assert not [each for each in told if "principals.list" in each]
            assert [each for each in told if "runtime.stop" in each]
            assert [each for each in told if "agent:bot ran read_skill" in each]
            page = await owner.see("/record?tool=principals")
            assert rows(page) == []
            (there,) = [each for each in page.links if "looks=true" in each]
            assert len(rows(await owner.see(there))) == 2

    anyio.run(main)
