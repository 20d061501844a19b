"""Who may read the record and not decide is shown of a request what the record shows, over the API and on the pages."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.approval import Approval, Shown
from metier.record.approval_viewed import as_viewed
from metier.record.secret_text import MASK
from seen_page import visiting
from serve_kit import Premises

SECRET = "hunter2secretX"
ASKED: dict[str, Any] = {
    "tool": "fs_write",
    "arguments": {"path": "memory/tea.md", "content": f"two lines\npassword={SECRET}"},
}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_who_may_only_read_the_record_sees_no_more_of_a_request_than_that(premises: Premises) -> None:
    agent, viewer, ann = (
        premises.agent(),
        premises.person("vic", "viewer"),
        premises.person("ann", "approver"),
    )

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            house.client(viewer) as vic,
            house.client(ann) as approver,
        ):
            waits = (await client.post("/api/v1/calls", json=ASKED)).json()
            one = f"/api/v1/approvals/{waits['approval_id']}"
            for place in ("/api/v1/approvals", one, f"{one}/shown"):
                seen, exact = await vic.get(place), await approver.get(place)
                assert seen.status_code == exact.status_code == 200
                assert SECRET in exact.text and SECRET not in seen.text, place
                assert "two lines" in seen.text and MASK in seen.text, "what is no secret is seen"
            print_of = (await approver.get(one)).json()["fingerprint"]
            assert print_of and (await vic.get(one)).json()["fingerprint"] == ""
            assert print_of[:16] not in (await vic.get(f"{one}/shown")).text
            words = "\n".join((await vic.get(f"{one}/shown")).json()["lines"])
            assert "as the record shows them" in words and "exactly" not in words
            assert "exactly as they will run" in (await approver.get(f"{one}/shown")).text
            kept = (await vic.get(f"/api/v1/audit/calls/{waits['call_id']}")).text
            assert SECRET not in kept and MASK in kept, "as it does"

    anyio.run(main)


def test_the_pages_show_who_may_only_read_the_record_no_more_of_a_request_than_that(
    premises: Premises,
) -> None:
    agent = premises.agent()
    premises.person("vera", "viewer")

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            visiting(house) as owner,
            visiting(house, "vera") as vera,
        ):
            waits = (await client.post("/api/v1/calls", json=ASKED)).json()
            for place in ("/", "/approvals", f"/approvals/{waits['approval_id']}"):
                seen, exact = await vera.see(place), await owner.see(place)
                assert SECRET in exact.text and "Exactly this will run" in exact.text, place
                assert SECRET not in seen.text and "Exactly this will run" not in seen.text, place
                assert "two lines" in seen.text and MASK in seen.text, place

    anyio.run(main)


def test_a_viewer_of_a_record_of_hashes_is_shown_no_arguments(premises: Premises) -> None:
    premises.configured('[audit]\npayloads = "hashes"\n')
    agent, viewer = premises.agent(), premises.person("vic", "viewer")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(viewer) as vic:
            waits = (await client.post("/api/v1/calls", json=ASKED)).json()
            seen = (await vic.get(f"/api/v1/approvals/{waits['approval_id']}")).json()
            assert (seen["shown"]["tool"], seen["shown"]["arguments"]) == ("fs_write/execute", {MASK: MASK})

    anyio.run(main)


def test_words_that_quote_an_argument_are_masked_like_it() -> None:
    word = f"password={SECRET}"
    shown = Shown(
        tool="notes",
        description="Writes.",
        principal="agent:bot",
        kind="agent",
        arguments={"text": word},
        permissions={"writes": [f"/srv/{word}"], "hosts": ["example.org"]},
        stands_for=(word,),
        replaces=word,
        effect="act",
        risk="medium",
        cost="free",
        skill_says=f"Write {word}?",
        reasons=(f"the rule says so of {word}",),
    )
    approval = Approval(
        id="apr_1",
        call_id="call_1",
        principal="agent:bot",
        state="pending",
        asked_at="",
        expires_at="",
        fingerprint="f",
        shown=shown,
    )
    seen = as_viewed(approval, "redacted")
    assert SECRET in str(approval) and SECRET not in str(seen)
    assert seen.shown is not None and seen.shown.permissions["hosts"] == ["example.org"]
    assert SECRET in str(as_viewed(approval, "full").shown), "the record keeps it too"
    assert as_viewed(approval, "full").fingerprint == ""


def test_a_viewer_does_not_find_out_by_trying_which_arguments_a_grant_is_for(premises: Premises) -> None:
    agent, viewer, ann = (
        premises.agent(),
        premises.person("vic", "viewer"),
        premises.person("ann", "operator"),
    )

    async def main() -> None:
        async with (
            premises.serving() as house,
            house.client(agent) as client,
            house.client(viewer) as vic,
            house.client(ann) as approver,
        ):
            one = (
                f"/api/v1/approvals/{(await client.post('/api/v1/calls', json=ASKED)).json()['approval_id']}"
            )
            yes = {"fingerprint": (await approver.get(one)).json()["fingerprint"], "scope": "always"}
            given = await approver.post(f"{one}/approve", json=yes)
            assert given.status_code == 200, given.text

            async def explained(who: Any, content: str) -> Any:
                asked = {"tool": "fs_write", "arguments": {**ASKED["arguments"], "content": content}}
                body = {**asked, "as": "agent:bot"}
                told = (await who.post("/api/v1/modules/policy/explain", json=body)).json()
                assert told["outcome"] == "completed", told
                return told["value"]

            right, wrong = ASKED["arguments"]["content"], "something else"
            assert (await explained(approver, right))["ends"] == "runs"
            assert (await explained(approver, wrong))["ends"] == "asks"
            seen = [await explained(vic, each) for each in (right, wrong)]
            for each in seen:
                assert each["ends"] == "asks"
                assert [
                    (grant["decision"], "certain arguments" in grant["reasons"][0])
                    for grant in each["grants"]
                ] == [("perhaps", True)]
            assert {**seen[0], "call_id": ""} == {**seen[1], "call_id": ""}

    anyio.run(main)
