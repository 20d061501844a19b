"""What is offered can be pressed, a page that is gone leads to one that is there, and an address nobody can read is said in words."""

from pathlib import Path

import anyio
import pytest

from seen_page import Node, visiting
from serve_kit import WRITE, House, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


async def asked(house: House) -> str:
    async with house.client(house.premises.agent()) as client:
        return str((await client.post("/api/v1/calls", json=WRITE)).json()["approval_id"])


def grants(card: Node) -> list[str]:
    return [
        (each.get("href") or "").partition("?")[2]
        for each in card.all("a")
        if "scope=" in (each.get("href") or "")
    ]


def test_a_grant_that_stays_is_offered_only_to_who_may_give_it(premises: Premises) -> None:
    async def main() -> None:
        premises.person("ada", "approver")
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "ada") as ada:
            id = await asked(house)
            assert grants((await owner.see("/approvals")).id(id)) == ["scope=session", "scope=always"]
            assert grants((await ada.see("/approvals")).id(id)) == ["scope=session"]
            there = f"/approvals/{id}?scope=always"
            assert [each for each in (await owner.see(there)).all("button") if each.get("data-grant")]
            page = await ada.see(there)
            assert not [each for each in page.all("button") if each.get("data-grant")]
            assert "that takes the right skills:trust" in page.section("grant-title").text
            assert [
                each
                for each in (await ada.see(f"/approvals/{id}?scope=session")).all("button")
                if each.get("data-grant")
            ]

    anyio.run(main)


def test_a_page_of_requests_that_is_no_longer_there_shows_the_last_one(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            id = await asked(house)
            page = await owner.see("/approvals?page=99")
            assert page.id(id).get("data-state") == "pending"
            assert "Nothing waits for a decision" not in page.live.text

    anyio.run(main)


@pytest.mark.parametrize("path", ["/usage?since=yesterday", "/approvals?page=0", "/policy/replay?since=x"])
def test_an_address_that_nobody_can_read_is_said_in_words(premises: Premises, path: str) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            said = (await owner.see(path, 400)).live.text
            assert "in the address cannot be read" in said
            assert not [each for each in ("Expected", "regex", "$.", "openapi") if each in said]

    anyio.run(main)


def test_the_chart_says_how_much_its_highest_bar_is(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            async with house.client(premises.agent()) as client:
                for _ in range(3):
                    await client.post("/api/v1/modules/channels/list", json={})
            calls, seconds = (await owner.see("/usage")).all("figure")
            assert "Calls a day at most 3" in calls.all("figcaption")[0].text
            assert "3 ran, 0 failed, 0 refused, 0 waited" in calls.all("title")[-1].text
            assert "Seconds of work a day at most" in seconds.text

    anyio.run(main)
