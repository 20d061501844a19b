"""How skills stand, said to a tired operator: what to press, what to type where there is nothing to press, and what is lacking before he trusts."""

import json
import shlex
from pathlib import Path

import anyio
import pytest

from household import KETTLE, configured, kettle, python_package
from machine import Machine, write_skill
from metier.catalog.here import owner as owner_here
from metier.doors.http.console.skills_words import KINDS, STATUS
from metier.kernel.skill_record import wish
from metier.kernel.store import Store
from seen_page import Node, Seen, visiting
from serve_kit import Premises

TELEGRAM = "xpell-agent-skill-telegram"
NEEDS = {
    "openclaw": {
        "requires": {"bins": ["kettle-ctl"], "env": ["TEA_KEY"]},
        "install": [{"kind": "apt", "package": "kettle-ctl", "bins": ["kettle-ctl"]}],
    }
}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def card(page: Seen, name: str) -> Node:
    (found,) = [each for each in page.live.all("article") if each.all("h2")[0].text == name]
    return found


def stands(page: Seen) -> str:
    return page.id("stands-title").text.removeprefix("How it stands: ")


def commands(part: Node) -> list[str]:
    return [each.text for each in part.all("code") if each.text.startswith("metier ")]


def allowed(machine: Machine, *enabled: str) -> None:
    """A package that can live, and is one that lives from the start where it is named."""
    python_package(machine, "kettle", KETTLE)
    configured(machine, "kettle", enabled=enabled)


@pytest.mark.parametrize("name", ["Bad Name!", "-dash", "it's $HOME; `x`", "long" * 30, "käse"])
def test_a_skill_whose_name_no_address_can_have_says_so_with_commands_that_a_shell_takes(
    premises: Premises, name: str
) -> None:
    write_skill(premises.machine.project / "skills" / name, metadata=json.dumps(NEEDS))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            part = card(await owner.see("/skills"), name)
            assert not part.all("a") and "waits for trust" in part.text
            assert "no address can have its name" in part.text and "on its page" not in part.text
            assert "apt install kettle-ctl" in part.text  # there is no page that would tell
            info, trust = (shlex.split(each) for each in commands(part))
            assert info[:3] == ["metier", "skills", "info"] and info[-1] == trust[-1] == name
            shown = await anyio.to_thread.run_sync(lambda: premises.machine.metier(*info[1:]))
            assert "pending approval" in shown.stdout
            await anyio.to_thread.run_sync(
                lambda: premises.machine.metier(*trust[1:3], "--yes", *trust[3:], check=None)
            )
            after = card(await owner.see("/skills"), name)
            assert "lacks something" in after.text and "Nobody trusted it" not in after.text
            assert [shlex.split(each)[2] for each in commands(after)] == ["info"]

    anyio.run(main)


def test_no_command_is_made_of_a_name_that_cannot_be_typed_as_it_is_seen(premises: Premises) -> None:
    write_skill(premises.machine.project / "skills" / "a\u202eb")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            part = card(await owner.see("/skills"), r"a\u{202e}b")
            assert not part.all("a") and not commands(part) and "Give it another name" in part.text
            assert "terminal" not in part.text

    anyio.run(main)


def test_what_a_skill_lacks_is_said_before_anybody_trusts_it_with_how_to_get_it(premises: Premises) -> None:
    write_skill(premises.machine.project / "skills" / "tea", metadata=json.dumps(NEEDS))
    own = {"openclaw": {"requires": {"bins": ["pot"]}, "install": [{"kind": "shell", "label": "Ask Bob"}]}}
    write_skill(premises.machine.skills / "pot", metadata=json.dumps(own))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/tea")
            assert stands(page) == "waits for trust"
            for text in (page.section("stands-title").text, card(await owner.see("/skills"), "tea").text):
                for word in ("Nobody trusted it yet", "still lack", "kettle-ctl", "TEA_KEY"):
                    assert word in text, word
                assert "Get it with: apt install kettle-ctl" in text
            assert "say so below" in page.live.text and "on its page" not in page.live.text
            await owner.send(page.form("Trust exactly"))
            after = (await owner.see("/skills/tea")).section("stands-title").text
            assert "lacks something" in after and "still lack" not in after and "TEA_KEY" in after
            # What its author wrote is his word, and nothing to paste.
            pot = card(await owner.see("/skills"), "pot")
            assert 'Its author says: "Ask Bob"' in pot.text and "Get it with" not in pot.text

    anyio.run(main)


def test_the_list_names_the_first_things_a_skill_lacks_and_its_page_all(premises: Premises) -> None:
    many = {"openclaw": {"requires": {"bins": [f"program-{number}" for number in range(9)]}}}
    write_skill(premises.machine.skills / "greedy", metadata=json.dumps(many))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            short = card(await owner.see("/skills"), "greedy").text
            assert 'binary "program-2"' in short and 'binary "program-8"' not in short
            assert "It lacks 5 more: its page names all" in short
            whole = (await owner.see("/skills/greedy")).section("stands-title").text
            assert 'binary "program-8"' in whole and "names all" not in whole

    anyio.run(main)


def test_what_is_shadowed_says_so_also_where_it_lacks_something(premises: Premises) -> None:
    for folder in (premises.machine.skills, premises.machine.home / ".claude" / "skills"):
        write_skill(folder / "tea", metadata=json.dumps(NEEDS))

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            (part,) = (await owner.see("/skills?status=shadowed")).live.all("article")
            assert "comes first and has the same name" in part.text

    anyio.run(main)


def test_numbers_and_words_fit_in_the_tabs(premises: Premises) -> None:
    write_skill(premises.machine.project / "skills" / "one")
    write_skill(premises.machine.skills / "lacks-1", metadata=json.dumps(NEEDS))
    assert KINDS.keys() == STATUS.keys()

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:

            async def tabs() -> list[str]:
                page = await owner.see("/skills")
                return [each.text for each in page.live.all("a") if "status=" in (each.get("href") or "")]

            assert {"1 waits for trust", "1 lacks something", "1 off"} < set(await tabs())
            write_skill(premises.machine.project / "skills" / "two")
            write_skill(premises.machine.skills / "lacks-2", metadata=json.dumps(NEEDS))
            await house.engine.reload()
            found = set(await tabs())
            assert {"2 wait for trust", "2 lack something", "1 off"} < found
            assert not [each for each in found if "waits" in each or "lacks" in each]

    anyio.run(main)


def test_what_ships_and_nobody_started_speaks_of_its_button_and_not_of_a_command(premises: Premises) -> None:
    premises.person("vera", "viewer", "agent")

    async def main() -> None:
        async with (
            premises.serving() as house,
            visiting(house) as owner,
            visiting(house, "vera") as vera,
        ):
            part, page = card(await owner.see("/skills"), TELEGRAM), await owner.see(f"/skills/{TELEGRAM}")
            assert "not started" in part.text and "a button on its page does that" in part.text
            assert "It lies in" not in part.text and "metier skills" not in part.text
            about = page.section("stands-title").text
            assert stands(page) == "not started" and "a button below does that" in about
            assert "metier skills" not in about
            form = page.form("Start it")
            assert (form.post, form.body()) == ("/api/v1/modules/skills/enable", {"skill_id": TELEGRAM})
            theirs = await vera.see(f"/skills/{TELEGRAM}")
            assert not theirs.forms and "runtime:steer" in theirs.section("lives-title").text

    anyio.run(main)


@pytest.mark.parametrize("name", [TELEGRAM, "fs_read"])
def test_what_was_switched_off_says_so_once_and_not_that_starting_it_is_enough(
    premises: Premises, name: str
) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see(f"/skills/{name}")
            await owner.send(page.form("Switch it off at once"), why="it smells")
            off = await owner.see(f"/skills/{name}")
            about = off.section("stands-title").text
            assert stands(off) == "switched off" and about.count("it smells") == 1
            assert "a button below" not in about

    anyio.run(main)


def test_what_somebody_ended_is_not_said_to_be_usable_though_the_configuration_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    kettle(tmp_path)  # first: what is read by running it is really run
    premises = Premises(tmp_path, monkeypatch)
    store = Store(str(premises.machine.state))
    wish(store, "kettle", enabled=False, by=owner_here())
    store.close()

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            found = house.engine.seen.catalog.get("kettle")
            assert found is not None and found.shown == "usable"  # as far as the configuration goes
            page = await owner.see("/skills/kettle")
            assert stands(page) == "not started" and "not running" in page.id("lives-title").text
            assert "it shall not live: a button below starts it" in page.section("stands-title").text
            assert page.form("Start it").body() == {"skill_id": "kettle"}

    anyio.run(main)


def test_only_what_lives_can_be_ended_and_what_never_did_is_only_not_started(premises: Premises) -> None:
    allowed(premises.machine, "kettle")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/kettle")
            assert "not running" in page.id("lives-title").text
            assert "End it" not in str([each.words for each in page.forms])
            (form,) = [each for each in page.all("form") if "disable" in (each.get("data-post") or "")]
            assert "will not be started" in (form.get("data-done") or "")
            assert "ended" not in (form.get("data-done") or "")

    anyio.run(main)
