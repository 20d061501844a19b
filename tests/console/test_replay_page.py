"""Trying other rules: what the script that shows the answer is told to call things, and what it is told is wrong."""

import json
from pathlib import Path

import anyio
import pytest

from seen_page import visiting
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
