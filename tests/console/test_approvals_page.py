"""The pages of what waits: what is given is what was shown, nothing is hidden without a word, and what is over can still be told apart."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import anyio
import pytest

from machine import write_skill
from metier.doors.http.console.fold import folded
from seen_page import Node, Seen, Visitor, visiting
from serve_kit import WRITE, House, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


async def asked(house: House, call: dict[str, Any] = WRITE) -> str:
    """An agent asks; the id of its request."""
    async with house.client(house.premises.agent()) as client:
        answer = (await client.post("/api/v1/calls", json=call)).json()
    assert answer["outcome"] == "pending", answer
    return str(answer["approval_id"])


def grant_button(page: Seen) -> Node | None:
    return next((each for each in page.all("button") if each.get("data-grant")), None)


@pytest.mark.parametrize("uses", ["1_0", "１０", "٧", "+5", "1e3", "0x10", "0", "-3", "1.5", "2000000"])
def test_apr_22_a_number_that_could_be_read_otherwise_makes_no_grant(premises: Premises, uses: str) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            id = await asked(house)
            for query in ({"uses": uses}, {"days": uses} if uses != "1.5" else {"days": "0.0"}):
                [(name, value)] = query.items()
                page = await owner.see(f"/approvals/{id}?{urlencode({'scope': 'always', name: value})}")
                assert grant_button(page) is None, query
                assert "plain digits" in page.live.text, query

    anyio.run(main)


def test_apr_22_what_is_sent_with_a_grant_is_what_the_shown_words_were_made_of(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            id = await asked(house)
            page = await owner.see(f"/approvals/{id}?scope=always&uses=10&days=7&any_arguments=true")
            assert "10 times" in page.section("grant-title").whole
            button = grant_button(page)
            assert button is not None
            body = json.loads(button.get("data-yes") or "")
            assert (body["scope"], body["uses"], body["days"], body["any_arguments"]) == (
                "always",
                10,
                7.0,
                True,
            )
            answer = await owner.it.post(f"/api/v1/approvals/{id}/approve", body)
            assert answer.status_code == 200, answer.text
            given = (await owner.it.post("/api/v1/modules/grants/list")).json()["value"]["grants"]
            assert "10 times" in str(given[0]["words"])

    anyio.run(main)


def test_what_was_decided_still_says_which_tool_it_was_about(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            id = await asked(house)
            answer = await owner.it.post(f"/api/v1/approvals/{id}/deny", {"word": "not today"})
            assert answer.status_code == 200, answer.text
            for path in ("/approvals?over=true", f"/approvals/{id}"):
                page = await owner.see(path)
                assert page.id(f"{id}-title").text == "agent:bot asked for fs_write/execute", path
                assert "denied" in page.id(id).text and "not today" in page.id(id).text, path

    anyio.run(main)


def test_what_has_a_yes_and_did_not_run_is_not_counted_as_waiting(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            first = await asked(house)
            async with house.client(house.premises.token("agent:bot", "skills:execute")) as client:
                again = {"tool": "fs_write", "arguments": {"path": "memory/two.md", "content": "x"}}
                assert (await client.post("/api/v1/calls", json=again)).json()["outcome"] == "pending"
            fingerprint = (await owner.see(f"/approvals/{first}")).id(first).get("data-fingerprint")
            yes = await owner.it.post(f"/api/v1/approvals/{first}/approve", {"fingerprint": fingerprint})
            assert yes.status_code == 200, yes.text
            page = await owner.see("/")
            assert page.id("waits-title").text == "1 waits for a word; 1 approved, not run yet"
            assert page.id("around").get("data-waiting") == "1"

    anyio.run(main)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "\n",
        "\n" * 39,
        "\n" * 40,
        "line\n" * 400,
        "x" * 3_000,
        "x" * 3_500,
        "x" * 3_501,
        "x" * 90_000,
        "a\n" * 10 + "x" * 9_000 + "\nb" * 60,
        "x" * 2_999 + "\n" + "y" * 4_000,
        "x" * 2_997 + "\\u{202e}" + "y" * 4_000,
    ],
)
def test_apr_23_a_fold_hides_nothing_without_saying_how_much(text: str) -> None:
    made = folded(text)
    joined = made.first + made.rest
    assert text in (joined, f"{made.first}\n{made.rest}") if made.more else text == made.first
    assert made.first.count("\n") < 40 and len(made.first) <= 3_500
    if made.more:
        assert f"{len(made.rest):,} bytes" in made.more
        assert not made.first.endswith(("\\", "\\u", "\\u{", "\\u{2", "\\u{20", "\\u{202"))
        lines = text.count("\n") - made.first.count("\n")
        assert (f"{lines:,} more line" in made.more) == bool(lines), made.more


def test_one_long_line_is_folded_as_well_as_many_lines_are(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            content = "".join(f"{number:05d}" for number in range(2_000))
            id = await asked(
                house, {"tool": "fs_write", "arguments": {"path": "memory/long.md", "content": content}}
            )
            card = (await owner.see(f"/approvals/{id}")).id(id)
            first, rest = (each.whole for each in card.all("pre")[:2])
            assert content in first + rest and len(first) < 4_000
            [summary] = [each.text for each in card.all("summary")]
            assert summary.startswith("The last line goes on")

    anyio.run(main)


async def _records(owner: Visitor) -> int:
    return int((await owner.it.get("/api/v1/audit?limit=1")).json()["records"][-1]["seq"])


def test_what_stands_around_is_asked_for_alone_and_asking_is_no_call(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await asked(house)
            page = await owner.see("/around")
            assert page.id("around").get("data-waiting") == "1" and "stopped" not in page.text
            stopped = await owner.it.post("/api/v1/modules/runtime/stop", {"why": "<b>lunch</b>"})
            assert stopped.json()["outcome"] == "completed", stopped.text
            before = await _records(owner)
            page = await owner.see("/around")
            assert "Everything is stopped." in page.text and "<b>lunch</b>" in page.text
            assert [each.words for each in page.forms] == ["Let things run again"]
            assert await _records(owner) == before

    anyio.run(main)


def test_who_may_not_steer_is_told_of_a_stop_and_has_no_button_for_it(premises: Premises) -> None:
    premises.person("vera", "viewer")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "vera") as vera:
            await owner.it.post("/api/v1/modules/runtime/stop", {"why": "lunch"})
            page = await vera.see("/around")
            assert "Everything is stopped." in page.text and page.forms == []

    anyio.run(main)


def test_somebody_new_is_led_to_the_skills_that_wait_or_told_how_to_get_one(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            guide = (await owner.see("/")).section("guide-title")
            assert "metier skills new" in guide.text
            write_skill(premises.machine.project / "skills" / "tea", version="1.0", body="Pour.")
            await house.engine.reload()
            guide = (await owner.see("/")).section("guide-title")
            assert "1 of yours waits for it" in guide.text
            assert "/skills?status=pending_approval" in [each.get("href") for each in guide.all("a")]

    anyio.run(main)
