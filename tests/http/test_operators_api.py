"""What operators do is asked for over HTTP like any operation, by people with the right and its scope."""

from pathlib import Path

import anyio
import pytest

from metier.catalog.here import owner
from metier.model.role import EXECUTE, READ_AUDIT, STEER
from serve_kit import Premises

OPERATORS = {
    *("skills.review", "skills.trust", "skills.untrust", "skills.switch_off", "skills.switch_on"),
    *("runtime.stop", "runtime.resume", "runtime.status", "runtime.level_get", "runtime.level_set"),
    *("grants.list", "grants.revoke", "principals.list", "principals.add", "principals.revoke"),
    *("policy.rules", "policy.explain", "policy.replay", "audit.usage", "audit.checkpoint"),
}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_a_person_stops_looks_and_resumes(premises: Premises) -> None:
    token = premises.person("opal", "operator")

    async def main() -> None:
        async with premises.serving() as house, house.client(token) as client:
            for operation, said, expected in (
                ("stop", {"why": "drill"}, {"stopped": True, "ending": [], "unrecorded": ""}),
                ("resume", {}, {"resumed": True}),
            ):
                answer = await client.post(f"/api/v1/modules/runtime/{operation}", json=said)
                assert answer.status_code == 200
                assert answer.json()["value"] == expected
                stands = (await client.post("/api/v1/modules/runtime/status", json={})).json()["value"]
                assert (stands["stopped"] or {}).get("why", "") == said.get("why", "")

    anyio.run(main)


@pytest.mark.parametrize("who", ["agent", "viewer", "without the scope", "nobody"])
def test_who_may_not_is_refused_and_nothing_is_stopped(premises: Premises, who: str) -> None:
    token = {
        "agent": premises.agent,
        "viewer": lambda: premises.person("vera", "viewer"),
        "without the scope": lambda: premises.token(owner(), EXECUTE, READ_AUDIT),
        "nobody": lambda: "",
    }[who]()

    async def main() -> None:
        async with premises.serving() as house, house.client(token) as client:
            answer = await client.post("/api/v1/modules/runtime/stop", json={})
            if who == "nobody":
                assert answer.status_code == 401
            else:
                assert answer.json()["code"] == "forbidden", answer.text
        async with premises.serving() as house, house.client(premises.owner()) as client:
            stands = (await client.post("/api/v1/modules/runtime/status", json={})).json()["value"]
            assert stands["stopped"] is None

    anyio.run(main)


def test_each_is_shown_what_he_may_ask_for_and_no_model_is_shown_any(premises: Premises) -> None:
    tokens = {
        "owner": premises.owner(),
        "viewer": premises.person("vera", "viewer"),
        "agent": premises.agent(),
        "scoped": premises.token(owner(), STEER),
    }
    shown: dict[str, set[str]] = {}

    async def main() -> None:
        async with premises.serving() as house:
            for who, token in tokens.items():
                async with house.client(token) as client:
                    answer = (await client.get("/api/v1/modules")).json()
                    shown[who] = {each["name"] for each in answer["operations"]} & OPERATORS
            async with house.client(tokens["agent"]) as client:
                for shape in ("openai", "mcp"):
                    text = (await client.get(f"/api/v1/tools?shape={shape}")).text
                    assert "runtime__" not in text
                    assert "skills__trust" not in text

    anyio.run(main)
    assert shown["owner"] == OPERATORS
    assert shown["agent"] == set()
    assert {"runtime.status", "skills.review", "audit.usage"} <= shown["viewer"]
    assert not shown["viewer"] & {"runtime.stop", "skills.trust", "principals.add", "audit.checkpoint"}
    assert shown["scoped"] == {
        *("runtime.stop", "runtime.resume", "runtime.level_set", "skills.switch_off", "skills.switch_on")
    }
