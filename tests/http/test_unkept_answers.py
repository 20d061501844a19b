"""Keys where they cannot do what they are for: nothing that ran is kept from who asked, and nobody thinks he is protected who is not."""

import json
import logging
from pathlib import Path

import anyio
import pytest

from metier.doors.http.idempotency import Before, Kept, Once
from metier.model.job import Job, Report
from serve_kit import READ, Premises

KEY = {"idempotency-key": "order-1"}
LOOK = {"tool": "fs_read", "arguments": {"path": "memory/tea.md"}}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = premises.agent()

    async def long(job: Job) -> Report:
        told = {"success": True, "content": "x" * 40_000, "size": 40_000, "modified": "2026-01-01T00:00:00Z"}
        return Report(ending="returned", value=told)

    premises.box._report = long  # type: ignore[method-assign]
    real = Kept._begin

    def full(self: Kept, once: Once, asked: bytes) -> Before:
        """From here on there is no more room on the disk, as SQLite says it."""
        found = real(self, once, asked)
        with self._database.reading() as connection:
            [pages] = connection.execute("PRAGMA page_count").fetchone()
        self._database._connection.execute(f"PRAGMA max_page_count = {pages}")
        return found

    monkeypatch.setattr(Kept, "_begin", full)

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            answer = await client.post("/api/v1/calls", json=LOOK, headers=KEY)
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["value"]["content"]) == 40_000
            state = await client.get(f"/api/v1/calls/{answer.json()['call_id']}")
            assert state.json()["state"] == "completed"
            again = await client.post("/api/v1/calls", json=LOOK, headers=KEY)
            assert again.json()["code"] == "already_begun"
            assert len(premises.box.jobs) == 1

    with caplog.at_level(logging.WARNING, logger="metier.http"):
        anyio.run(main)
    assert "cannot be kept" in caplog.text


def test_a_key_where_many_calls_are_made_is_refused_and_nothing_runs(premises: Premises) -> None:
    agent = premises.agent()
    function = {"name": READ["tool"], "arguments": json.dumps(READ["arguments"])}
    body = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            for key in ("once", "a b '"):
                answer = await client.post("/api/v1/handle", json=body, headers={"idempotency-key": key})
                assert (answer.status_code, answer.json()["code"]) == (400, "bad_idempotency_key")
            assert (await client.get("/api/v1/calls")).json() == {"calls": []}
            assert (await client.post("/api/v1/handle", json=body)).status_code == 200

    anyio.run(main)
