"""Usage: what agents and people had done, and not how often somebody looked at it."""

import time
from pathlib import Path

import anyio
import pytest

from seen_page import Seen, visiting
from serve_kit import READ, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def rows(page: Seen, name: str) -> dict[str, str]:
    """How many calls, by what stands before them."""
    (table,) = [each for each in page.live.walk() if each.get("aria-label") == f"Usage by {name}"]
    return {row.all("td")[0].text: row.all("td")[1].text for row in table.all("tbody")[0].all("tr")}


def test_before_anything_was_called_usage_says_that_nothing_was(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            for _ in range(2):
                for path in ("/people", "/policy", "/usage"):
                    page = await owner.see(path)
            assert "Nothing was called in that time" in page.live.text
            assert "Not counted: " in page.live.text

    anyio.run(main)


def test_what_people_looked_at_is_not_counted_unless_it_is_wanted(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            async with house.client(premises.agent()) as client:
                for _ in range(2):
                    assert (await client.post("/api/v1/calls", json=READ)).status_code == 200
            await owner.see("/people")
            page = await owner.see("/usage")
            assert rows(page, "tool") == {"read_skill": "2"}
            assert rows(page, "principal") == {"agent:bot": "2"}
            assert rows(page, "day") == {time.strftime("%Y-%m-%d", time.gmtime()): "2"}
            page = await owner.see("/usage?looks=true")
            assert "Not counted: " not in page.live.text
            assert rows(page, "tool")["principals.list"] == "1"

    anyio.run(main)


def test_what_a_person_did_is_counted_and_what_an_agent_reads_too(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await owner.it.post("/api/v1/modules/runtime/stop", {"why": "drill"})
            await owner.it.post("/api/v1/modules/runtime/resume", {})
            async with house.client(premises.agent()) as client:
                await client.post("/api/v1/modules/channels/list", json={})
            page = await owner.see("/usage")
            assert {"runtime.stop", "runtime.resume", "channels.list"} <= set(rows(page, "tool"))

    anyio.run(main)
