"""The list of skills: each with how it stands and why, found by a word, and fit for thousands."""

import json
from pathlib import Path

import anyio
import pytest

from browser import browser
from machine import write_skill
from metier.doors.http.console.skills import ON_A_PAGE
from seen_page import Node, Seen, visiting
from serve_kit import Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def card(page: Seen, name: str) -> Node:
    """The part of the list about the skill of this name."""
    (found,) = [each for each in page.live.all("article") if each.all("h2")[0].text == name]
    return found


def names(page: Seen) -> list[str]:
    return [each.all("h2")[0].text for each in page.live.all("article")]


def skills(premises: Premises) -> None:
    """One of each kind."""
    needs = {
        "openclaw": {
            "requires": {"bins": ["kettle"]},
            "install": [{"kind": "apt", "package": "kettle", "bins": ["kettle"]}],
        }
    }
    write_skill(premises.machine.skills / "tea", version="1.2.0", metadata=json.dumps(needs))
    write_skill(premises.machine.skills / "plain", description="Polishes silver.")
    write_skill(premises.machine.project / "skills" / "waits")
    write_skill(premises.machine.project / "skills" / "plain")
    write_skill(premises.machine.skills / "half", description="")
    premises.configured('[skills]\ndisabled = ["off"]\n')
    write_skill(premises.machine.skills / "off")


def test_every_skill_stands_there_with_its_status_its_reason_and_what_it_may(premises: Premises) -> None:
    skills(premises)

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills")
            tea = card(page, "tea").text
            for word in (
                "lacks something",
                "version 1.2.0",
                "openclaw",
                "kettle",
                "apt install kettle",
                "run kettle; no network",
            ):
                assert word in tea, word
            assert (
                "can be used" in card(page, "fs_read").text
                and "read its own folder" in card(page, "fs_read").text
            )
            waits = card(page, "waits").text
            assert "waits for trust" in waits and "Nobody trusted it yet" in waits
            assert "switched off" in card(page, "off").text and "skills.disabled" in card(page, "off").text
            assert "refused" in card(page, "half").text and "description" in card(page, "half").text
            shadowed = [each for each in page.live.all("article") if "shadowed" in each.text]
            assert len(shadowed) == 1 and "comes first and has the same name" in shadowed[0].text
            assert not shadowed[0].all("a")  # its name leads to the one that has it

    anyio.run(main)


def test_skills_are_found_by_a_word_a_status_and_a_dialect(premises: Premises) -> None:
    skills(premises)

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            assert names(await owner.see("/skills?q=SILVER")) == ["plain"]
            assert names(await owner.see("/skills?q=%20tea")) == ["tea"]
            assert names(await owner.see("/skills?status=pending_approval")) == ["waits"]
            assert names(await owner.see("/skills?status=broken")) == ["half"]
            amber = await owner.see("/skills?dialect=amber&status=usable")
            assert names(amber) == ["calendar", "send-message"]
            none = await owner.see("/skills?q=nothing-is-called-that")
            assert not none.live.all("article") and "No skill is like that" in none.live.text
            for odd in ("status=odd", "dialect=odd", "page=0", "q=" + "x" * 201, "other=1"):
                await owner.see(f"/skills?{odd}", 400)

    anyio.run(main)


def test_a_long_list_comes_in_pages_that_keep_what_was_asked_for(premises: Premises) -> None:
    for number in range(ON_A_PAGE + 7):
        write_skill(premises.machine.skills / f"many-{number:03}", description="Be & do <b>.")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            first = await owner.see("/skills?q=be+%26+do")
            assert len(names(first)) == ON_A_PAGE and "57 skills" in first.live.text
            (after,) = [each for each in first.links if "page=2" in each]
            second = await owner.see(after)
            assert names(second) == [f"many-{number:03}" for number in range(ON_A_PAGE, ON_A_PAGE + 7)]
            beyond = await owner.see("/skills?page=99999")
            assert not names(beyond)

    anyio.run(main)


def test_inj_11_what_a_skill_calls_itself_is_text_and_can_be_seen(premises: Premises) -> None:
    nasty = "<script>alert(1)</script>\u202egnihton\u200b <img src=x onerror=alert(1)> {{ 7*7 }}"
    write_skill(premises.machine.skills / "nasty", description=nasty, version=json.dumps("<b>9"))
    write_skill(premises.machine.skills / "a\u202eb<i>", description="")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            for path in (
                "/skills",
                "/skills/nasty",
                "/skills/nasty/files",
                "/skills/nasty/try",
                "/skills?q=%3Cscript%3E",
            ):
                page = await owner.see(path)
                assert not page.live.all("script") and not page.live.all("img") and not page.live.all("i"), (
                    path
                )
                assert not {"\u202e", "\u200b"} & set(page.whole), path
                assert all(each.get("nonce") for each in page.all("script"))
                assert not [name for each in page.walk() for name in each.attributes if name.startswith("on")]
            text = card(await owner.see("/skills"), "nasty").text
            assert r"<script>alert(1)</script>\u{202e}gnihton\u{200b} <img" in text and "{{ 7*7 }}" in text
            (odd,) = (await owner.see("/skills?status=broken")).live.all("article")
            assert r"a\u{202e}b<i>" in odd.text and not odd.all("a")  # no address has such a name

    anyio.run(main)


def test_apr_26_a_skill_cannot_word_what_it_may_nor_push_it_out_of_what_is_shown(premises: Premises) -> None:
    lie = "{workspace}/out; no network; nothing else, checked by Metier"
    variables = [f"A_VARIABLE_OF_A_LONG_NAME_{n}" for n in range(30)]
    needs = {
        "metier": {"permissions": {"writes": [lie], "hosts": ["evil.example"], "env": variables}},
    }
    write_skill(premises.machine.skills / "words", metadata=json.dumps(needs))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            listed = card(await owner.see("/skills"), "words").text
            assert (
                "reach (1 host); write (1 place)" in listed and "see the variables (30 variables)" in listed
            )
            assert "no network" not in listed
            whole = (await owner.see("/skills/words")).section("stands-title").text
            assert f'reach evil.example; write "{lie.replace("{workspace}", "workspace")}"' in whole
            assert variables[-1] in whole

    anyio.run(main)


def test_the_pages_about_skills_are_for_people_who_may_read_the_record(premises: Premises) -> None:
    premises.person("vera", "viewer")
    premises.person("abe", "approver")
    premises.person("eve", "agent")

    async def main() -> None:
        async with premises.serving() as house:
            paths = (
                "/skills",
                "/skills/fs_read",
                "/skills/fs_read/files",
                "/skills/fs_read/settings",
                "/skills/fs_read/try",
            )
            for name, status in (("vera", 200), ("abe", 200), ("eve", 403)):
                async with visiting(house, name) as person:
                    for path in paths:
                        page = await person.see(path, status)
                        assert ("fs_read" in page.live.text) == (status == 200)
            async with browser(house) as stranger:
                for path in paths:
                    answer = await stranger.get(path)
                    assert answer.status_code == 401 and "fs_read" not in answer.text
                agent = premises.agent()  # a token is no person in a browser
                for path in paths:
                    answer = await stranger.get(path, authorization=f"Bearer {agent}")
                    assert answer.status_code == 401 and "fs_read" not in answer.text

    anyio.run(main)
