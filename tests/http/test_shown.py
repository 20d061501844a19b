"""What others wrote is text wherever it is shown, and what breaks tells nothing of the machine."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from machine import approve_all, write_skill
from metier.catalog.here import owner
from metier.doors.http import tools as beside
from metier.errors import StateError
from metier.model.job import Report
from metier.model.role import EXECUTE, READ_AUDIT
from serve_kit import READ, WRITE, Premises

NASTY = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'javascript:alert(1)"


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_web_06_what_others_wrote_is_data_and_never_a_page(premises: Premises) -> None:
    write_skill(premises.machine.skills / "nasty", description=NASTY)
    approve_all(premises.machine.skills)
    me, agent = premises.owner(), premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as person, house.client(agent) as client:
            await client.post("/api/v1/calls", json={"tool": NASTY, "arguments": {NASTY: NASTY}})
            for path in (
                "skills",
                "skills/nasty",
                "audit",
                "prompt",
                "tools",
                "approvals",
                f"skills/{NASTY[:8]}",
            ):
                answer = await person.get(f"/api/v1/{path}")
                kind = answer.headers["content-type"]
                assert kind in ("application/json", "application/problem+json"), path
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert "sandbox" in answer.headers["content-security-policy"]
            shown = (await person.get("/api/v1/skills/nasty")).json()
            assert shown["description"] == NASTY  # as it was written, for who shows it as text

    anyio.run(main)


def test_web_06_the_page_puts_nothing_into_itself_as_markup() -> None:
    files = Path(beside.__file__).with_name("console")
    scripts = [each for each in sorted(files.glob("static/*.js")) if not each.name.endswith(".min.js")]
    assert {"act.js", "sign_in.js"} <= {each.name for each in scripts}
    script = "".join(each.read_text(encoding="utf-8") for each in scripts)
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "document.write",
        "eval(",
        "Function(",
        "localStorage",
        "setAttribute",
        "srcdoc",
    ):
        assert word not in script
    page = "".join(each.read_text(encoding="utf-8") for each in files.glob("templates/*.html"))
    assert "<html" in page
    assert "<style" not in page and "style=" not in page and "javascript:" not in page


def test_web_07_no_request_is_let_in_by_something_in_its_address(premises: Premises) -> None:
    me = premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            for name in ("token", "access_token", "api_key", "authorization", "key"):
                assert (await client.get(f"/api/v1/audit?{name}={me}")).status_code == 401
            assert (await client.get("/api/v1/audit", headers={"x-api-key": me})).status_code == 401
            assert (
                await client.get("/api/v1/audit", headers={"authorization": f"Basic {me}"})
            ).status_code == 401

    anyio.run(main)


def test_web_18_a_fault_of_ours_is_told_without_its_insides(
    premises: Premises, monkeypatch: pytest.MonkeyPatch
) -> None:
    me = premises.owner()

    async def broken(*_: object) -> object:
        raise RuntimeError("SELECT secret FROM /home/someone")

    async def unusable(*_: object) -> object:
        raise StateError(
            "the database /home/someone/state.db cannot be opened", remedy="Look at /home/someone"
        )

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as client:
            for does, status, code in ((broken, 500, "internal"), (unusable, 503, "state_unavailable")):
                monkeypatch.setattr(house.door.serving.engine.kernel, "ready", does)
                answer = await client.get("/api/v1/modules")
                assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
                assert "someone" not in answer.text and "SELECT" not in answer.text

    anyio.run(main)


def test_nobody_is_offered_what_the_gate_would_always_refuse_him(premises: Premises) -> None:
    me, agent = premises.owner(), premises.agent()
    looks = premises.token(owner(), READ_AUDIT)

    async def main() -> None:
        async with premises.serving() as house:
            tools: dict[str, list[str]] = {}
            operations: dict[str, dict[str, Any]] = {}
            for who, token in (("me", me), ("agent", agent), ("looks", looks)):
                async with house.client(token) as client:
                    found = (await client.get("/api/v1/tools", params={"shape": "anthropic"})).json()["tools"]
                    tools[who] = [each["name"] for each in found]
                    listed = (await client.get("/api/v1/modules")).json()["operations"]
                    operations[who] = {each["name"]: each for each in listed}
            assert (
                "fs_write" in str(tools["agent"]) and tools["me"] == tools["agent"] and tools["looks"] == []
            )
            assert {"secrets.set", "conv.erase", "skills.list"} <= operations["me"].keys()
            assert operations["agent"] and not any(
                each["privileged"] for each in operations["agent"].values()
            )
            assert {each["permission"] for each in operations["agent"].values()} == {EXECUTE}
            assert {each["permission"] for each in operations["looks"].values()} <= {READ_AUDIT}
            async with house.client(agent) as client:  # and what is left out would have been refused
                for name in sorted(operations["me"].keys() - operations["agent"].keys()):
                    path = f"/api/v1/modules/{name.replace('.', '/')}"
                    made = (await client.post(path, json={})).json()
                    assert made["outcome"] == "refused", name

    anyio.run(main)


def test_what_is_wrong_with_a_request_is_what_is_said(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            bad = await client.get("/api/v1/me", headers={"authorization": f"Bearer {agent[:-1]}x"})
            assert (bad.status_code, bad.json()["detail"]) == (401, "this token lets nobody in")
            head = await client.head("/api/v1/events")
            assert (head.status_code, head.headers["allow"]) == (405, "GET")
            none = await client.post("/api/v1/modules/skills/list")  # which takes no arguments
            assert (none.status_code, none.json()["outcome"]) == (200, "completed")
            missing = await client.post("/api/v1/calls")
            assert (missing.status_code, missing.json()["code"]) == (400, "bad_request")
            document = (await client.get("/api/v1/openapi.json")).json()
            made = document["paths"]["/api/v1/tokens"]["post"]
            assert document["security"] == [{"token": []}, {"session": []}] and made["security"] == [
                {"session": []}
            ]

    anyio.run(main)


def test_cap_03_a_token_stands_in_no_answer_record_or_log(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    agent, me = premises.agent(), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(me) as person:
            await client.post("/api/v1/calls", json=READ)
            await client.post("/api/v1/calls", content=b"{", headers={"content-type": "application/json"})
            for path in ("audit", "tokens", "me", "calls", "approvals", "modules"):
                text = (await person.get(f"/api/v1/{path}")).text
                assert agent not in text and me not in text and agent[-32:] not in text

    anyio.run(main)
    assert agent not in caplog.text and me not in caplog.text
    for file in premises.machine.state.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert agent.encode() not in data and me.encode() not in data, file


def test_the_document_is_the_whole_api_and_says_what_lets_somebody_in(premises: Premises) -> None:
    from metier.doors.http.app import application
    from metier.doors.http.sign_in_routes import routes

    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            document = (await client.get("/api/v1/openapi.json")).json()
            more = routes(cast("Any", None), lambda: frozenset())
            app = cast("Any", application(house.door.serving, cast("Any", None), more=more))
            paths = {
                each.path
                for each in app._app.routes
                if each.path.startswith(("/api/", "/healthz", "/readyz", "/metrics"))
            }
            assert paths == set(document["paths"])
            assert json.dumps(document).count("#/components/schemas/") > 50
            assert set(document["components"]["securitySchemes"]) == {"token", "session"}
            open = set[str]()
            for path, methods in document["paths"].items():
                for method, each in methods.items():
                    body = {"json": {}} if "requestBody" in each else {}
                    answer = await client.request(method.upper(), re.sub(r"{\w+}", "x", path), **body)
                    assert (answer.status_code == 401) == bool(
                        each["security"] or path.endswith("/callback")
                    ), (path, answer)
                    assert str(answer.status_code) in each["responses"], (path, answer)
                    if not each["security"]:
                        open.add(path.removeprefix("/api/v1"))
            sign_in = {
                f"/sign-in{each}" for each in ("", "/link", "/password", "/oidc/start", "/oidc/callback")
            }
            assert open == {"/healthz", "/readyz", "/openapi.json", *sign_in}

    anyio.run(main)


def test_every_code_is_in_the_docs() -> None:
    import ast

    import metier.doors.http as door

    known = (Path(__file__).parents[2] / "docs" / "http.md").read_text(encoding="utf-8")
    known += (Path(__file__).parents[2] / "docs" / "sign-in.md").read_text(encoding="utf-8")
    for file in sorted(Path(str(door.__file__)).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Refusal" and len(node.args) > 1:
                match node.args[1]:
                    case ast.Constant(value=str(code)):
                        assert f"`{code}`" in known, (file.name, code)
                    case _:
                        pass


def test_every_moment_that_is_shown_is_text_in_utc(premises: Premises) -> None:
    agent, me = premises.agent(), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(me) as person:
            waits = (await client.post("/api/v1/calls", json=WRITE)).json()
            shown = (await person.get(f"/api/v1/approvals/{waits['approval_id']}")).json()
            mine = (await person.get("/api/v1/me")).json()
            tokens = (await person.get("/api/v1/tokens")).json()["tokens"]
            told = {
                "pending": [waits["expires_at"]],
                "approval": [shown["asked_at"], shown["expires_at"]],
                "me": [mine["expires_at"]],
                "token": [tokens[0]["added_at"], tokens[0]["expires_at"]],
            }
            for what, moments in told.items():
                for each in moments:
                    assert isinstance(each, str) and each.endswith("Z"), (what, each)
                    assert datetime.fromisoformat(each).tzinfo is not None
            assert shown["asked_at"] < shown["expires_at"]

    anyio.run(main)


def test_what_ships_with_metier_is_listed_under_the_digest_that_the_record_has(premises: Premises) -> None:
    premises.box._report = Report(ending="returned", value={"success": True, "text": "x"})
    agent, me = premises.agent(), premises.owner()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client, house.client(me) as person:
            look = {"tool": "fs_read", "arguments": {"path": "memory/tea.md"}}
            done = (await client.post("/api/v1/calls", json=look)).json()
            records = (await person.get(f"/api/v1/audit/calls/{done['call_id']}")).json()["records"]
            [(name, digest)] = {(each["record"]["skill"], each["record"]["skill_digest"]) for each in records}
            skills = {each["name"]: each for each in (await client.get("/api/v1/skills")).json()["skills"]}
            assert digest.startswith("sha256:") and skills[name]["digest"] == digest
            assert (await client.get(f"/api/v1/skills/{name}")).json()["digest"] == digest
            assert all(each["digest"] for each in skills.values()), "and so is every other"

    anyio.run(main)
