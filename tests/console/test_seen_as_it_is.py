"""What pages say of what happened: in words, once, and without doing anything by being looked at."""

from pathlib import Path

import anyio
import msgspec
import pytest

from browser import Browser
from metier.doors.http.console import story
from metier.model.digest import Json
from metier.model.job import Report
from metier.model.outcome import Attempt, Run
from metier.model.outcome import Request as Asked
from metier.record.search import Query, search
from seen_page import Seen, Visitor, visiting
from serve_kit import WRITE, House, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


async def decided(house: House, it: Browser, agent: str, how: str) -> dict[str, str]:
    async with house.client(agent) as client:
        call = {**WRITE, "arguments": {"path": "memory/tea.md", "content": how}}
        made = (await client.post("/api/v1/calls", json=call)).json()
    path = f"/api/v1/approvals/{made['approval_id']}"
    shown = (await it.get(path)).json()
    assert (await it.post(f"{path}/{how}", {"fingerprint": shown["fingerprint"]})).status_code == 200
    if how == "approve":
        assert (await it.post(f"{path}/take-up")).json()["outcome"] == "completed"
    return made


def refusals(house: House) -> list[str]:
    found = search(house.engine.state.database, Query(event="skill_execution_blocked"), 100)
    return [each.tool for each in found]


def test_what_was_approved_says_what_it_was_as_what_was_denied_does(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            for how in ("approve", "deny"):
                await decided(house, owner.it, agent, how)
            page = await owner.see("/approvals?over=true")
            heads = [each.text for each in page.all("h3")]
            assert heads == ["agent:bot asked for fs_write/execute"] * 2

    anyio.run(main)


def test_a_story_says_what_it_may_in_words_what_the_sandbox_kept_to_and_the_arguments_once(
    premises: Premises,
) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            made = await decided(house, owner.it, agent, "approve")
            page = await owner.see(f"/record/calls/{made['call_id']}")
            text = page.live.text
            assert "write in the workspace" in text and "no network" in text
            assert len([each for each in page.all("h4") if each.text == "arguments"]) == 1
            assert "Arguments: the same as in record" in text
            assert "{workspace}" not in page.id("live").whole

    anyio.run(main)


LOOKS = ("/channels", "/skills/fs_write/settings", "/people", "/usage", "/schedules", "/policy")


@pytest.mark.parametrize(
    "what", ["everything is stopped", "the configuration is broken", "the rules are broken"]
)
def test_who_looks_around_while_nothing_is_done_leaves_no_refusals_behind(
    premises: Premises, what: str
) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            state = Path(house.engine.seen.settings.home)
            if what == "everything is stopped":
                await owner.it.post("/api/v1/modules/runtime/stop", {"why": "fire"})
            elif what == "the rules are broken":
                (state / "policy.toml").write_text("[[rule]\n", encoding="utf-8")
            else:
                (state / "metier.toml").write_text("[approvals\n", encoding="utf-8")
            for path in LOOKS:
                page = await owner.see(path)
            assert refusals(house) == []
            page = await owner.see("/channels")
            assert "fire" in page.text if "stopped" in what else "cannot be used" in page.text

    anyio.run(main)


def test_rules_that_cannot_be_used_are_shown_with_what_is_wrong_and_others_can_be_tried(
    premises: Premises,
) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            state = Path(house.engine.seen.settings.home)
            (state / "policy.toml").write_text(
                '[[rule]]\ndecision = "ask"\ntool = "fs_read"\nbecause = "it is private"\nwhat = 1\n',
                encoding="utf-8",
            )
            page = await owner.see("/policy")
            assert "it is private" in page.live.text and "They cannot be shown" not in page.live.text
            assert [each.text for each in page.live.walk() if each.get("class") == "warn"]
            form = (await owner.see("/policy/replay")).form("Replay with these")
            answer = await owner.send(
                form, rules='[[rule]]\ndecision = "deny"\ntool = "fs_read"\nbecause = "no"\n'
            )
            assert answer["outcome"] == "completed" and answer["value"]["ok"], answer

    anyio.run(main)


@pytest.mark.parametrize("name", ["viewer", "approver", "owner"])
def test_who_may_not_decide_is_not_told_which_key_would(premises: Premises, name: str) -> None:
    agent = premises.agent()
    if name != "owner":
        premises.person(name, name)

    async def main() -> None:
        async with premises.serving() as house, visiting(house, "" if name == "owner" else name) as person:
            async with house.client(agent) as client:
                await client.post("/api/v1/calls", json=WRITE)
            text = (await person.see("/approvals")).live.text
            assert ("deny with a word" in text) == (name != "viewer")
            assert ("l always" in text) == (name == "owner")

    anyio.run(main)


def test_the_first_page_says_what_happened_today_and_each_thing_once(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            await owner.it.post("/api/v1/modules/runtime/stop", {"why": "fire"})
            await owner.it.post("/api/v1/modules/runtime/resume", {})
            page = await owner.see("/")
            text = page.section("happened-title").text
            assert "What happened today" in text and "stopped everything" in text
            assert "runtime.stop" not in text and "let things run again" in text

    anyio.run(main)


EMPTY = {
    "/channels": "its settings",
    "/approvals?over=true": "on the record",
    "/schedules": "metier schedules add",
}


@pytest.mark.parametrize("path", EMPTY)
def test_a_page_on_which_there_is_nothing_yet_says_what_to_do_next(premises: Premises, path: str) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            assert EMPTY[path] in (await owner.see(path)).live.text

    anyio.run(main)


async def explained(owner: Visitor, site: str) -> Seen:
    address = "/policy/explain?tool=fs_write&arguments=%7B%22path%22%3A%22planted%22%7D"
    headers = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    answer = await owner.it.client.get(address, headers=headers)
    assert answer.status_code == 200, answer.text
    return Seen(answer.text)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_web_04_a_link_of_another_page_has_nothing_asked_in_the_name_of_who_follows_it(
    premises: Premises, site: str
) -> None:
    """Another program on this machine is of the same site, and its links come with our cookie."""

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await explained(owner, site)
            assert "planted" in page.id("live").whole and "would be" not in page.live.text
            asked = Query(tool="policy.explain")
            assert search(house.engine.state.database, asked, 10) == []
            page = await explained(owner, "same-origin")  # the control: he pressed the button
            assert search(house.engine.state.database, asked, 10) != []

    anyio.run(main)


def test_web_04_who_is_signed_in_after_such_a_link_is_led_to_the_page_and_not_to_its_question(
    premises: Premises,
) -> None:
    async def main() -> None:
        async with premises.serving() as house, house.client() as stranger:
            headers = {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            }
            for path, there in (("/policy/explain?tool=x", "/policy/explain"), ("/record?text=tea", "")):
                answer = await stranger.get(path, headers=headers)
                assert answer.status_code == 401 and f'data-there="{there}"' in answer.text

    anyio.run(main)


def test_what_a_run_asked_for_and_was_refused_is_listed_in_words_and_bounded() -> None:
    many = tuple(
        Asked(method="http", detail=f"https://tea.example/{n}", answer="answered") for n in range(60)
    )
    run = Run(
        sandbox="python (bubblewrap)",
        seconds=0.5,
        memory_bytes=16_000_000,
        denials=(Attempt(kind="read", detail="/etc/passwd", count=3),),
        violations=(Attempt(kind="syscall", detail="mount"),),
        requests=many,
        requests_unlisted=7,
    )
    kept: dict[str, Json] = {"run": msgspec.to_builtins(run), "result": 1}
    seen = story._seen(kept)
    assert seen is not None and kept == {"result": 1}
    assert seen.cost == "0.50 s, 0.00 s of a processor, 16.0 MB of memory"
    assert seen.refused == ['read "/etc/passwd", 3 times'] and seen.violations == ['syscall "mount"']
    assert len(seen.asked) == 50 and seen.more == 17
    odd: dict[str, Json] = {"run": {"sandbox": 5}}
    assert story._seen(odd) is None and "run" in odd, "what has another shape is shown as it is"


def test_a_conversation_that_there_is_not_is_not_found_as_everything_else(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/channels/threads/999999", 404)
            assert "no such conversation" in page.live.text

    anyio.run(main)
