"""Trying other rules: what the script that shows the answer is told to call things, and what it is told is wrong."""

import json
import re
from pathlib import Path

import anyio
import pytest

from metier.config.ground import POLICY
from metier.doors.http.console import policy
from seen_page import Seen, visiting
from serve_kit import READ, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_every_field_that_is_named_for_a_replay_is_one_that_it_answers(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            async with house.client(premises.agent()) as client:
                await client.post("/api/v1/calls", json=READ)
            page = await owner.see("/policy/replay")
            place = page.id("tried")
            words, columns = (
                json.loads(place.get("data-words") or ""),
                json.loads(place.get("data-columns") or ""),
            )
            rules = '[[rule]]\ndecision = "deny"\ntool = ["read_skill"]\nbecause = "no reading"\n'
            good = await owner.send(page.form("Replay with these"), rules=rules)
            bad = await owner.send(page.form("Replay with these"), rules="not toml [")
            assert good["value"]["ok"] is True and bad["value"]["ok"] is False
            assert set(words) <= {*good["value"], *good["value"]["summary"]}
            assert set(columns) <= set(words)
            for name in ("kinds", "calls"):
                assert set(columns[name]) <= set(good["value"][name][0]), name
            assert set(columns["problems"]) <= set(bad["value"]["problems"][0])
            assert bad["value"]["problems"][0]["message"]

    anyio.run(main)


def _judged(page: Seen) -> int:
    found = re.search(r"([0-9,]+) calls were judged", page.live.text)
    assert found is not None, page.live.text
    return int(found[1].replace(",", ""))


def test_a_page_that_cannot_come_to_the_beginning_says_how_far_it_came_and_the_next_goes_on(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = premises.machine.state / POLICY

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            async with house.client(premises.agent()) as client:
                for _ in range(4):
                    await client.post("/api/v1/calls", json=READ)
            rules.write_text('[[rule]]\ndecision = "deny"\ntool = "read_skill"\nbecause = "no reading"\n')
            rules.chmod(0o600)
            whole = await owner.see("/policy/replay?now=true")
            assert "4 otherwise" in whole.live.text and "not the whole past" not in whole.live.text
            assert not [each for each in whole.links if "before=" in each]
            monkeypatch.setattr(policy, "_SECONDS", 1e-9)
            otherwise, parts, address = 0, 0, "/policy/replay?now=true&since=2020-01-01"
            while address:
                page = await owner.see(address)
                assert "since=2020-01-01" in address
                otherwise += "1 otherwise" in page.live.text
                older = [each for each in page.links if "before=" in each]
                assert bool(older) is ("That is not the whole past" in page.live.text)
                assert bool(older) is not ("Nothing older is left since 2020-01-01" in page.live.text)
                parts, address = parts + 1, older[0] if older else ""
                assert _judged(page) <= 1
            assert otherwise == 4 and parts > 8

    anyio.run(main)


def test_a_record_number_that_is_none_is_said_in_words(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/policy/replay?now=true&before=x", status=400)
            assert "before" in page.live.text

    anyio.run(main)
