"""Whether it is there, whether it can work, and its counters."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from metier.model.role import EXECUTE
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
        [sys.executable, str(script), "--json", "--seconds", "5"],
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
    assert found["approved_runs"] == found["decided"] == 250, found
    assert found["memory_growth"] < 0.5, found
