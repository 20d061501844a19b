"""Whoever is refused is told what to do about it, at every place where something is refused."""

import ast
from pathlib import Path

import anyio
import pytest

import metier.doors as doors
from metier.doors.http.approvals import _NOT_DECIDED
from metier.record.decider import Why
from serve_kit import READ, WRITE, Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_no_refusal_is_written_without_a_remedy() -> None:
    from typing import get_args

    for file in sorted(Path(str(doors.__file__)).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal":
                remedy = [each.value for each in node.keywords if each.arg == "remedy"]
                assert len(remedy) == 1, (file.name, node.lineno, ast.unparse(node))
                assert ast.unparse(remedy[0]) not in ("''", "None"), (file.name, node.lineno)
    assert set(_NOT_DECIDED) == set(get_args(Why)) - {"unknown"}, "every reason that a desk has"


def test_what_people_meet_most_says_what_to_do(premises: Premises) -> None:
    agent, ann = premises.agent(), premises.person("ann", "approver")

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(ann) as person:
            key = {"idempotency-key": "one"}
            await client.post("/api/v1/calls", json=READ, headers=key)
            waits = (await client.post("/api/v1/calls", json=WRITE)).json()["approval_id"]
            denied = await person.post(f"/api/v1/approvals/{waits}/deny", json={})
            assert denied.json()["state"] == "denied", denied.json()
            met = {
                "forbidden": await client.get("/api/v1/audit"),
                "key_reused": await client.post("/api/v1/calls", json=WRITE, headers=key),
                "not_open": await person.post(f"/api/v1/approvals/{waits}/deny", json={}),
                "not_found": await client.get("/api/v1/calls/call_0123456789abcdef"),
                "bad_request": await client.get("/api/v1/skills", params={"nonsense": "1"}),
                "invalid_body": await client.post("/api/v1/calls", json={}),
                "foreign_page": await client.get("/api/v1/me", headers={"origin": "http://evil.example"}),
                "unauthenticated": await client.get("/api/v1/me", headers={"authorization": "Bearer x"}),
                "method_not_allowed": await client.put("/api/v1/calls"),
            }
            for code, answer in met.items():
                told = answer.json()
                assert told["code"] == code, told
                assert told["detail"] and told["remedy"], told

    anyio.run(main)
