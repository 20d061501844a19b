"""One call's whole story: what was asked, what the gate said and why, on whose word it ran, what it gave, and what it had done inside."""

from pathlib import Path

import anyio
import pytest

from browser import browser, sign_in
from metier.model.job import Report
from serve_kit import WRITE, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    made.box._report = Report(ending="returned", value={"success": True, "outputs": {}})
    return made


def test_a_call_is_told_from_its_asking_to_its_end_and_can_be_explained_again(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it, house.client(agent) as client:
            await sign_in(house, it)
            call = {**WRITE, "arguments": {"path": "memory/tea.md", "content": "green <b>tea</b>"}}
            made = (await client.post("/api/v1/calls", json=call)).json()
            shown = (await it.get(f"/api/v1/approvals/{made['approval_id']}")).json()
            path = f"/api/v1/approvals/{made['approval_id']}"
            assert (
                await it.post(f"{path}/approve", {"fingerprint": shown["fingerprint"]})
            ).status_code == 200
            assert (await it.post(f"{path}/take-up")).json()["outcome"] == "completed"
            page = (await it.get(f"/record/calls/{made['call_id']}")).text
            for words in (
                "asked for",
                "approved",
                "ran",
                "asks every time",
                "green &lt;b&gt;tea&lt;/b&gt;",
                made["approval_id"],
            ):
                assert words in page, words
            assert "<b>tea" not in page
            again = page.partition('href="/policy/explain?')[2].partition('"')[0].replace("&amp;", "&")
            explained = (await it.get(f"/policy/explain?{again}")).text
            assert "Somebody would be asked" in explained and "trust ladder" in explained
            assert (await it.get("/record/calls/call_0123456789abcdef")).status_code == 404

    anyio.run(main)
