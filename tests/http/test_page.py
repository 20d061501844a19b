"""The page that the link of a request leads to: it shows exactly that request, as text, to who may see it, and decides it once."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from browser import link_of
from metier.catalog.here import owner
from metier.doors.http import passwords
from metier.doors.http.whereabouts import decide_at
from metier.model.job import Report
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.credentials import set_credential
from page_kit import FILES, Page, page
from serve_kit import WRITE, House, Premises

PASSWORD = "correct horse battery staple"
NASTY = "green\u202e tea\u200b <script>alert(1)</script> \u05d0\u05d1 \u0085\r" + " " * 40 + "rm -rf /"


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


async def asked(house: House, agent: str, content: str = "tea") -> str:
    async with house.client(agent) as client:
        call = {**WRITE, "arguments": {"path": "memory/tea.md", "content": content}}
        made = (await client.post("/api/v1/calls", json=call)).json()
    assert made["outcome"] == "pending", made
    return str(made["approval_id"])


async def bind(house: House, who: str) -> None:
    body = await to_thread.run_sync(passwords.hashed, PASSWORD)
    me = owner()
    database = house.engine.state.database
    assert set_credential(database, "password", name=who, principal=who, body=body, by=me, owner=me) == ""


async def stands(house: House, approval: str) -> Any:
    found = await to_thread.run_sync(find, house.engine.state.database, approval)
    assert found is not None
    return found


async def shown_to_owner(house: House, it: Page, approval: str) -> None:
    """As somebody sees it who opened the link, was not signed in, and had `metier sign-in` print him one."""
    await it.open(f"#approval={approval}")
    await it.hash(f"#token={await link_of(house)}")


def test_the_link_of_a_request_leads_to_that_request_and_a_yes_runs_it_once(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            approval, _other = await asked(house, agent, NASTY), await asked(house, agent)
            await it.open(f"#approval={approval}")
            assert "metier sign-in" in it.text("who") and approval in it.text("who")
            assert it.visible("sign-in") and not it.visible("request") and not it.visible("choices")
            await it.hash(f"#token={await link_of(house)}")  # the same page, another fragment
            assert it.saw["hash"] == f"#approval={approval}"  # and no token
            assert owner() in it.text("who") and not it.visible("sign-in")
            assert it.visible("request") and it.visible("choices") and not it.visible("waits")
            assert it.saw["focused"] == "request-title"
            await (await it.wait()).press("yes", times=3)
            assert it.text("said") == "Approved, once. It ran, and ended well."
            assert not it.visible("choices") and it.saw["focused"] == "request-title"
            path = f"/api/v1/approvals/{approval}"
            (sent,) = it.sent(f"{path}/approve")
            assert sent["scope"] == "once" and it.sent(f"{path}/take-up") == [{}]
            assert len(premises.box.jobs) == 1 and (await stands(house, approval)).state == "spent"
            with premises.opened() as database:
                (yes,) = [each for each in AuditLog(database).tail(50) if each.event == "skill_approved"]
            assert yes.principal == owner() and yes.session.startswith("session:")
            await it.open(f"#approval={approval}")
            assert "spent" in it.text("shown") and not it.visible("choices")

    anyio.run(main)


def test_apr_24_the_page_shows_who_what_and_why_with_every_character_to_be_seen(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            approval = await asked(house, agent, NASTY)
            await shown_to_owner(house, it, approval)
            text = it.text("shown")
            for word in (
                "agent:bot", f"on behalf of {owner()}", "fs_write/execute", "because", "asks every time", "may ",
                "memory/tea.md", r"green\u{202e} tea\u{200b} <script>alert(1)</script>", r"\u{85}\r", "rm -rf /",
                "cannot be seen or that move others (U+000D U+0085 U+200B U+202E)", "long run of blanks",
            ):  # fmt: skip
                assert word in text, word
            assert "metier approvals" not in text  # it is decided here
            assert not {"\u202e", "\u200b", "\x85", "\r"} & set(text)

    anyio.run(main)
    rule = next(line for line in (FILES / "page.css").read_text().splitlines() if line.startswith("pre "))
    assert "unicode-bidi: bidi-override" in rule and "direction: ltr" in rule  # no letter moves another
    assert "pre-wrap" in rule and "overflow:" not in rule and "height" not in rule  # nothing is out of sight


def test_a_no_is_said_with_a_word_and_never_runs(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            approval = await asked(house, agent)
            await shown_to_owner(house, it, approval)
            await it.wait()
            await it.do("fill", id="word", value="not today")
            await it.press("no", times=2)
            assert it.text("said") == "Denied. It never runs." and not it.visible("choices")
            found = await stands(house, approval)
            assert (found.state, found.word, found.decided_by) == ("denied", "not today", owner())
            assert not premises.box.jobs and len(it.sent(f"/api/v1/approvals/{approval}/deny")) == 1

    anyio.run(main)


def test_web_05_a_click_that_was_meant_for_another_window_decides_nothing(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            approval = await asked(house, agent)
            await shown_to_owner(house, it, approval)
            await it.press("yes")  # it stood there for no time at all
            await (await it.wait()).do("come")
            for button in ("yes", "no"):
                await it.press(button)
                assert "press again" in it.text("said")
            assert (await stands(house, approval)).state == "pending"
            await (await it.wait()).press("no")
            assert (await stands(house, approval)).state == "denied"

    anyio.run(main)


def test_web_16_the_page_of_a_request_that_was_decided_elsewhere_says_so(premises: Premises) -> None:
    agent, me = premises.agent(), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it, house.client(me) as elsewhere:
            approval, other = await asked(house, agent), await asked(house, agent)
            await shown_to_owner(house, it, approval)
            await elsewhere.post(f"/api/v1/approvals/{approval}/deny", json={})
            await (await it.wait()).press("yes")
            assert it.text("said").startswith("Not decided: it was denied already")
            await it.hash(f"#approval={other}")  # nothing of the first one is left
            assert it.visible("choices") and it.text("said") == "" and other in it.text("shown")
            await (await it.wait()).press("yes")
            assert (await stands(house, other)).state == "spent"
            assert not it.sent(f"/api/v1/approvals/{approval}/take-up") and len(premises.box.jobs) == 1

    anyio.run(main)


def test_who_may_not_decide_sees_no_button_and_who_may_not_see_it_sees_nothing(premises: Premises) -> None:
    agent = premises.agent()
    viewer, other = premises.person("vic", "viewer"), premises.person("eve", "agent")

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            approval = await asked(house, agent)
            for who in ("human:vic", "human:eve"):
                await bind(house, who)
                await it.open(f"#approval={approval}")
                await it.sign_in(who, PASSWORD)
                assert who in it.text("who") and it.saw["hash"] == f"#approval={approval}"
                assert it.visible("request") and not it.visible("choices")
                assert ("agent:bot" in it.text("shown")) == (who == "human:vic")
                assert "skills:approve" in it.text("said")
                await it.press("out")
            for odd in ("apr_" + "0" * 32, "apr_x", "../../me", "%3Cscript%3E"):
                await it.open(f"#approval={odd}")
                await it.hash(f"#token={await link_of(house)}")
                assert not it.visible("choices") and it.text("shown") == ""
            for token, status in ((agent, 403), (viewer, 200), (other, 403)):
                async with house.client(token) as client:
                    path = f"/api/v1/approvals/{approval}/shown"
                    assert (await client.get(path)).status_code == status
            assert not [
                each for each in it.saw["asked"] if each["method"] == "POST" and "approvals" in each["path"]
            ]

    anyio.run(main)


def test_other_processes_of_this_state_know_the_page_of_a_request_for_as_long_as_it_is_served(
    premises: Premises,
) -> None:
    home, id = str(premises.machine.state), "apr_" + "0" * 32

    async def main() -> None:
        assert decide_at(home, id) == ""
        async with premises.serving() as house:
            assert decide_at(home, id) == f"http://{house.at}/#approval={id}"
        assert decide_at(home, id) == ""

    anyio.run(main)


def test_what_waits_is_listed_and_leads_on(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, page(house) as it:
            await it.open(f"#token={await link_of(house)}")
            assert it.saw["hash"] == "" and it.text("waits-title") == "Nothing waits for a decision"
            first, second = await asked(house, agent), await asked(house, agent)
            await it.open()
            assert it.saw["links"] == [
                [f"#approval={each}", "agent:bot: fs_write/execute"] for each in (first, second)
            ]
            await it.hash(it.saw["links"][1][0])
            assert second in it.text("shown") and not it.visible("waits")
            await it.hash("#")
            assert it.visible("waits") and not it.visible("request")

    anyio.run(main)
