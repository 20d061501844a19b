"""What an agent asks for costs whoever decides it no more than it is long: he can always say no, and stop everything."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import approve_all, write_skill
from seen_page import visiting
from serve_kit import Premises

OPEN = {
    "metier": {
        "tools": [
            {
                "name": "go",
                "description": "Goes.",
                "parameters": {
                    "type": "object",
                    "properties": {"body": {"type": "object", "additionalProperties": True}},
                },
                "effect": "act",
                "approval": "always",
                "entry": {"kind": "python", "path": "go.py", "function": "main"},
            }
        ]
    }
}
HEAVY: dict[str, dict[str, Any]] = {
    "a long name above many texts": {"é" * 15_000: {f"{n:x}": "\u200b" for n in range(3_000)}},
    "many names that mislead": {f"{n}\u200b": "p\u0430y" for n in range(5_000)},
    "many words that mislead": {"a": " ".join(f"p\u0430y{n}" for n in range(8_000))},
}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    folder = write_skill(made.machine.skills / "open", metadata=json.dumps(OPEN))
    (folder / "go.py").write_text("def main(params):\n    return params\n", encoding="utf-8")
    approve_all(made.machine.skills)
    return made


@pytest.mark.parametrize("what", HEAVY)
def test_apr_29_a_page_is_not_much_longer_than_what_was_asked_however_it_was_made(
    premises: Premises, what: str
) -> None:
    call = {"tool": "open/go", "arguments": {"body": HEAVY[what]}}
    size = len(json.dumps(call, ensure_ascii=False).encode())

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            async with house.client(premises.agent()) as client:
                asked = (await client.post("/api/v1/calls", json=call)).json()
            assert asked["outcome"] == "pending", asked
            for path in ("/", "/approvals", f"/approvals/{asked['approval_id']}"):
                with anyio.fail_after(10):
                    answer = await owner.it.get(path)
                assert answer.status_code == 200
                assert len(answer.content) < 8 * size + 20_000, path
                assert " more like this: " in answer.text

    anyio.run(main)
