"""Whether it is there, whether it can work, and its counters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from metier.kernel.host_role import HostRole
from metier.model.role import EXECUTE
from metier.runtime.unusable import without_places
from serve_kit import READ, Premises
from yard import away, back


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_it_is_ready_only_while_a_call_could_be_recorded(premises: Premises) -> None:
    agent = premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(agent) as client:
            assert (await client.get("/readyz")).status_code == 200
            away(premises.path)
            lost = await client.get("/readyz")
            assert (lost.status_code, lost.json()["code"]) == (503, "not_ready")
            assert str(premises.machine.top) not in lost.text
            assert (await client.get("/healthz")).status_code == 200
            done = await client.post("/api/v1/calls", json=READ)
            assert done.status_code == 503 or done.json()["outcome"] == "refused"
            back(premises.path)
            assert (await client.get("/readyz")).status_code == 200

    anyio.run(main)


def test_web_18_a_broken_configuration_is_not_ready_says_nothing_of_the_machine_and_is_logged_once(
    premises: Premises, caplog: pytest.LogCaptureFixture
) -> None:
    agent = premises.agent()
    function = {"name": READ["tool"], "arguments": json.dumps(READ["arguments"])}
    handed = {"tool_calls": [{"id": "a", "type": "function", "function": function}]}
    file = premises.machine.state / "metier.toml"

    def warned(what: str = "cannot be used, so calls are refused") -> list[str]:
        return [each.getMessage() for each in caplog.records if what in each.getMessage()]

    async def main() -> None:
        async with premises.serving(watch=True) as house, house.client(agent) as client:
            assert (await client.get("/readyz")).status_code == 200
            for times, text in ((1, "nonsense = 1\n"), (2, "nonsense = {\n")):
                file.write_text(text, encoding="utf-8")
                with anyio.fail_after(20):
                    while len(warned()) < times:
                        await anyio.sleep(0.05)
                lost = await client.get("/readyz")
                assert (lost.status_code, lost.json()["code"]) == (503, "not_ready")
                assert "metier" in lost.json()["remedy"]
                call = await client.post("/api/v1/calls", json=READ)
                assert call.json()["code"] == "setup_unusable"
                assert call.json()["reasons"][0].startswith("metier.toml")
                state = await client.get(f"/api/v1/calls/{call.json()['call_id']}")
                for answer in (lost, call, state, await client.post("/api/v1/handle", json=handed)):
                    assert str(premises.machine.top) not in answer.text
                await anyio.sleep(1.5)  # it is tried again twice a second
                assert len(warned()) == times, warned()
                assert str(file) in warned()[-1], "the log has it whole"
            file.unlink()
            with anyio.fail_after(10):
                while (await client.get("/readyz")).status_code != 200 or not warned("can be used again"):
                    await anyio.sleep(0.05)
            await anyio.sleep(1.5)
            assert len(warned("can be used again")) == 1

    with caplog.at_level("WARNING"):
        anyio.run(main)


def test_counters_are_for_who_may_read_the_record(premises: Premises) -> None:
    premises.configured("[telemetry]\nprometheus = true\n")
    me, agent = premises.owner(), premises.agent()

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as person, house.client(agent) as client:
            await client.post("/api/v1/calls", json=READ)
            assert (await client.get("/metrics")).status_code == 403
            shown = await person.get("/metrics")
            assert shown.status_code == 200
            assert 'metier_calls_total{code="",outcome="completed",tool="read_skill"}' in shown.text

    anyio.run(main)


def test_counters_say_whether_anything_is_the_host_and_calls_work_without_one(premises: Premises) -> None:
    premises.configured("[telemetry]\nprometheus = true\n")
    me, home = premises.owner(), str(premises.machine.state)

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as person:

            async def counted() -> tuple[bool, bool]:
                text = (await person.get("/metrics")).text
                return "metier_host_here 1.0" in text, "metier_host_running 1.0" in text

            assert await counted() == (False, False)
            assert (await person.get("/readyz")).status_code == 200
            assert (await person.post("/api/v1/calls", json=READ)).json()["outcome"] == "completed"
            role = HostRole.try_take(home)
            assert isinstance(role, HostRole)
            assert await counted() == (False, True)
            role.release()
            await house.engine.kernel.host((), lambda _: None)
            assert await counted() == (True, True)

    anyio.run(main)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/home/my name/.metier/metier.toml: no", "metier.toml: no"),
        ("/srv/elsewhere/rules.toml: no", "rules.toml: no"),
        ("Run: chmod 600 '/srv/else/x.db', then again", "Run: chmod 600 'x.db', then again"),
        ("~/private/x is there", "x is there"),
        (
            "See https://example.com/a/b and docs/configuration.md",
            "See https://example.com/a/b and docs/configuration.md",
        ),
    ],
)
def test_web_18_a_refusal_names_a_file_and_not_where_this_machine_keeps_it(
    premises: Premises, said: str, told: str
) -> None:
    settings = replace(premises.machine.settings(), home="/home/my name/.metier")
    assert without_places(said, settings) == told


def test_without_counters_there_are_none_to_be_had(premises: Premises) -> None:
    me, narrow = premises.owner(), premises.token("agent:library", EXECUTE)

    async def main() -> None:
        async with premises.serving() as house, house.client(me) as person, house.client(narrow) as client:
            assert (await person.get("/metrics")).status_code == 404
            assert (await client.get("/metrics")).status_code == 403

    anyio.run(main)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_under_load_nothing_is_lost_or_doubled_and_memory_stays(tmp_path: Path) -> None:
    """Two hundred clients, a thousand approvals; how fast it is: `make serve`."""
    script = Path(__file__).parents[2] / "benchmarks" / "serve.py"
    done = subprocess.run(
        [sys.executable, str(script), "--json", "--seconds", "10"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=380,
        cwd=tmp_path,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    found = json.loads(done.stdout)
    assert found["lost"] == 0, found
    assert found["approved_runs"] == found["decided"] == 500, found
    assert found["memory_growth"] < 0.5, found
