"""Telemetry: off unless switched on; it sees how calls end and nothing of what they say; no call depends on it."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest

from machine import Machine, write_skill
from metier import telemetry
from metier.config.load import load
from metier.config.settings import Settings, TelemetrySettings
from metier.errors import ConfigError
from metier.model.outcome import Completed, Failed, Pending, Refused
from metier.model.outcome import Outcome as Ending
from metier.pipeline import House
from metier.pipeline import run as pipeline_run
from metier.record.approval_clock import moment
from metier.record.database import Database
from metier.record.pending import pending_in
from metier.telemetry import Run, Telemetry, registry
from test_pipeline import Kitchen, asked

SECRET = "t3apot-in-the-clear"


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """What a program around Metier sets up. The package takes one provider a process, so each test stands in for it."""
    exporter = InMemorySpanExporter()
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made)
    yield made, exporter
    made.shutdown()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "m")


@pytest.fixture
def kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    machine = Machine(tmp_path / "m")
    write_skill(machine.skills / "green")
    made = Kitchen(machine)
    made.trusted("green")
    yield made
    made.database.close()


def settings(tmp_path: Path, *, otel: bool = False, prometheus: bool = False) -> Settings:
    machine = Machine(tmp_path / "m")
    made = machine.settings()
    return replace(made, telemetry=TelemetrySettings(otel=otel, prometheus=prometheus))


def observed(run: Run[House], settings: Settings) -> Run[House]:
    return Telemetry.of(settings).observed(run)


def metric(name: str, **labels: str) -> float:
    return registry().get_sample_value(name, labels) or 0.0


# --- off --------------------------------------------------------------------------------------------------------------

OPEN_AND_CALL = """
import sys
from metier import SyncRuntime
with SyncRuntime.open(watch=False) as runtime:
    print(type(runtime.call("read_skill", {"name": "green"})).__name__)
print(sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "prometheus_client")))
"""


def program(machine: Machine, code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=machine.project,
        env=machine.environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.splitlines()


def switch_on(machine: Machine, **what: bool) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    file = machine.state / "metier.toml"
    file.write_text("[telemetry]\n" + "".join(f"{name} = {str(on).lower()}\n" for name, on in what.items()))
    file.chmod(0o600)


def test_nothing_of_it_is_imported_unless_it_is_switched_on(machine: Machine) -> None:
    write_skill(machine.skills / "green")
    assert program(machine, OPEN_AND_CALL) == ["Completed", "[]"]
    switch_on(machine, otel=True, prometheus=True)
    said = program(machine, OPEN_AND_CALL)
    assert said[0] == "Completed"
    assert "opentelemetry.trace" in said[1] and "prometheus_client" in said[1]


def test_switched_off_it_does_not_stand_between(tmp_path: Path) -> None:
    assert observed(pipeline_run, settings(tmp_path)) is pipeline_run
    assert observed(pipeline_run, settings(tmp_path, prometheus=True)) is not pipeline_run


def test_only_the_operator_switches_it_on(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "m")
    assert machine.settings().telemetry == TelemetrySettings(otel=False, prometheus=False)
    (machine.project / "metier.toml").write_text("[telemetry]\notel = true\n")
    with pytest.raises(ConfigError, match="telemetry"):
        machine.settings()
    (machine.project / "metier.toml").unlink()
    switch_on(machine, otel=True)
    assert machine.settings().telemetry.otel
    (machine.state / "metier.toml").write_text("[telemetry]\notl = true\n")
    with pytest.raises(ConfigError, match="did you mean 'otel'"):
        load(home=str(machine.state), project=str(machine.project), environ=machine.environ)


@pytest.mark.parametrize(
    ("which", "package"), [("otel", "opentelemetry"), ("prometheus", "prometheus_client")]
)
def test_what_is_switched_on_and_not_installed_is_said_at_once(
    machine: Machine, which: str, package: str
) -> None:
    write_skill(machine.skills / "green")
    switch_on(machine, **{which: True})
    code = f"""
import sys
sys.modules["{package}"] = None
from metier import ConfigError, SyncRuntime
try:
    with SyncRuntime.open(watch=False):
        print("opened")
except ConfigError as error:
    print(error.message, "|", error.remedy)
"""
    (said,) = program(machine, code)
    assert package in said and "metier[telemetry]" in said


# --- spans ------------------------------------------------------------------------------------------------------------


def test_a_call_is_a_span_as_the_conventions_have_it(
    tmp_path: Path, kitchen: Kitchen, provider: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    kitchen.work = lambda approved: Completed(call_id=approved.authorized.valid.call.id, value=SECRET)
    run = observed(pipeline_run, settings(tmp_path, otel=True))
    call = asked("pour", name="green", note=SECRET)
    assert isinstance(anyio.run(run, call, kitchen.house), Completed)
    (span,) = provider[1].get_finished_spans()
    assert span.name == "execute_tool pour"
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pour",
        "gen_ai.tool.call.id": call.id,
        "metier.principal": "agent:test",
        "metier.outcome": "completed",
        "metier.decision": "allow",
        "metier.skill": "green",
    }
    assert span.status.is_unset
    assert SECRET not in span.to_json()


def test_refusals_and_failures_say_their_code_and_no_word_of_anybody(
    tmp_path: Path, kitchen: Kitchen, provider: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    run = observed(pipeline_run, settings(tmp_path, otel=True))
    kitchen.work = lambda approved: Failed(
        call_id=approved.authorized.valid.call.id, code="not_found", message=SECRET
    )
    for call in (
        asked("pour", name="green"),
        asked("pour", name=SECRET),
        asked(SECRET),
        asked("flood", name="green"),
    ):
        anyio.run(run, call, kitchen.house)
    spans = provider[1].get_finished_spans()
    assert [
        (
            span.name,
            (span.attributes or {}).get("metier.decision"),
            (span.attributes or {}).get("metier.code"),
        )
        for span in spans
    ] == [
        ("execute_tool pour", "allow", "not_found"),
        ("execute_tool pour", "deny", "unknown_skill"),
        ("execute_tool unknown", "deny", "unknown_tool"),
        ("execute_tool flood", "deny", "forbidden"),
    ]
    assert [span.status.status_code.name for span in spans] == ["ERROR", "UNSET", "UNSET", "UNSET"]
    assert (spans[0].attributes or {})["error.type"] == "not_found"
    assert not any(SECRET in span.to_json() for span in spans)


def test_a_call_lies_within_the_callers_span_and_leaves_it_as_it_was(
    tmp_path: Path, kitchen: Kitchen, provider: tuple[TracerProvider, InMemorySpanExporter]
) -> None:
    run = observed(pipeline_run, settings(tmp_path, otel=True))

    async def agent() -> None:
        with provider[0].get_tracer("agent").start_as_current_span("invoke_agent") as outer:
            await run(asked("pour", name="green"), kitchen.house)
            assert trace.get_current_span() is outer

    anyio.run(agent)
    inner, outer = provider[1].get_finished_spans()
    assert inner.parent is not None and outer.context is not None
    assert inner.parent.span_id == outer.context.span_id


TRACED = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from metier import SyncRuntime
with SyncRuntime.open(watch=False) as runtime:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    runtime.call("read_skill", {"name": "green"})
    call = {"id": "1", "type": "function", "function": {"name": "read_skill", "arguments": '{"name": "red"}'}}
    runtime.handle([call])
    for span in exporter.get_finished_spans():
        print(span.name, span.attributes["metier.outcome"], span.attributes.get("metier.skill"))
"""


def test_the_library_hands_its_spans_to_whatever_the_program_set_up(machine: Machine) -> None:
    write_skill(machine.skills / "green")
    switch_on(machine, otel=True)
    assert program(machine, TRACED) == [
        "execute_tool read_skill completed green",
        "execute_tool read_skill refused None",
    ]


# --- counters ---------------------------------------------------------------------------------------------------------


def test_calls_are_counted_by_tool_and_how_they_ended(tmp_path: Path, kitchen: Kitchen) -> None:
    run = observed(pipeline_run, settings(tmp_path, prometheus=True))

    def counted() -> list[float]:
        return [
            metric("metier_calls_total", tool="pour", outcome="completed", code=""),
            metric("metier_calls_total", tool="pour", outcome="refused", code="unknown_skill"),
            metric("metier_calls_total", tool="unknown", outcome="refused", code="unknown_tool"),
            metric("metier_call_duration_seconds_count", tool="pour", outcome="completed"),
        ]

    before = counted()
    for call in (
        asked("pour", name="green"),
        asked("pour", name="green"),
        asked("pour", name="x"),
        asked(SECRET),
    ):
        anyio.run(run, call, kitchen.house)
    assert [now - then for now, then in zip(counted(), before, strict=True)] == [2, 1, 1, 2]
    assert SECRET.encode() not in generate_latest(registry())


def test_what_waits_is_counted_where_it_lies_whoever_queued_it(machine: Machine) -> None:
    write_skill(machine.skills / "green")
    switch_on(machine, prometheus=True)
    policy = machine.state / "policy.toml"
    policy.write_text('[[rule]]\ndecision = "ask"\nbecause = "to be sure"\ntool = "read_skill"\n')
    policy.chmod(0o600)
    observed(pipeline_run, machine.settings())
    waited = metric("metier_pending_approvals")
    asked = machine.metier("call", "read_skill", '{"name": "green"}', "--json", check=4)
    assert metric("metier_pending_approvals") == waited + 1
    with Database.look(str(machine.state / "state.db")) as database, database.reading() as connection:
        assert pending_in(connection) == 1
        assert pending_in(connection, moment().wall + 3_600) == 0
    machine.metier("approvals", "deny", json.loads(asked.stdout)["approval_id"])
    assert metric("metier_pending_approvals") == waited
    (machine.state / "state.db").chmod(0o666)  # what cannot be read is no number
    assert b"metier_pending_approvals" not in generate_latest(registry())
    (machine.state / "state.db").chmod(0o600)


# --- who watches never touches a call ---------------------------------------------------------------------------------


class Broken(SpanProcessor):
    """A processor that fails at a step."""

    def __init__(self, step: str) -> None:
        self.step = step

    def on_start(self, span: object, parent_context: object = None) -> None:
        if self.step == "start":
            raise RuntimeError("broken exporter")

    def on_end(self, span: ReadableSpan) -> None:
        if self.step == "end":
            raise RuntimeError("broken exporter")


@pytest.mark.parametrize("step", ["start", "end"])
def test_an_exporter_that_breaks_touches_no_call(
    tmp_path: Path,
    kitchen: Kitchen,
    provider: tuple[TracerProvider, InMemorySpanExporter],
    caplog: pytest.LogCaptureFixture,
    step: str,
) -> None:
    provider[0].add_span_processor(Broken(step))
    with pytest.raises(RuntimeError, match="broken exporter"):
        provider[0].get_tracer("x").start_span("x").end()
    run = observed(pipeline_run, settings(tmp_path, otel=True, prometheus=True))
    before = metric("metier_calls_total", tool="pour", outcome="completed", code="")
    with caplog.at_level(logging.WARNING, logger="metier.telemetry"):
        outcome = anyio.run(run, asked("pour", name="green"), kitchen.house)
    assert isinstance(outcome, Completed)
    assert metric("metier_calls_total", tool="pour", outcome="completed", code="") == before + 1
    assert [record.event for record in kitchen.log.tail(2)] == ["skill_execution_started", "skill_executed"]
    assert "the call went on" in caplog.text


def test_a_call_that_is_cancelled_or_breaks_is_counted_and_goes_its_way(
    tmp_path: Path, kitchen: Kitchen
) -> None:
    def interrupted(code: str) -> float:
        return metric("metier_calls_total", tool="pour", outcome="failed", code=code)

    async def waits(call: object, house: House) -> Ending:
        await anyio.sleep_forever()
        raise AssertionError

    async def breaks(call: object, house: House) -> Ending:
        raise ZeroDivisionError

    async def cancelled() -> bool:
        run = observed(waits, settings(tmp_path, prometheus=True))
        with anyio.move_on_after(0.01) as scope:
            await run(asked("pour", name="green"), kitchen.house)
        return scope.cancelled_caught

    before = interrupted("interrupted"), interrupted("internal")
    assert anyio.run(cancelled)
    with pytest.raises(ZeroDivisionError):
        anyio.run(
            observed(breaks, settings(tmp_path, prometheus=True)), asked("pour", name="green"), kitchen.house
        )
    assert (interrupted("interrupted"), interrupted("internal")) == (before[0] + 1, before[1] + 1)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (Completed(call_id="c", value=SECRET), ("completed", "", "allow")),
        (Failed(call_id="c", code="raised", message=SECRET), ("failed", "raised", "allow")),
        (Pending(call_id="c", approval_id="apr_1", reasons=(SECRET,)), ("pending", "", "ask")),
        (Refused(call_id="c", code="forbidden", reasons=(SECRET,)), ("refused", "forbidden", "deny")),
    ],
)
def test_of_an_outcome_only_its_kind_and_code_are_seen(
    tmp_path: Path,
    kitchen: Kitchen,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Ending,
    expected: tuple[str, str, str],
) -> None:
    seen: list[object] = []

    def watcher(begun: telemetry.Begun) -> object:
        seen.append(begun)
        return seen.append

    monkeypatch.setattr(telemetry, "_spans", lambda: watcher)

    async def ends(call: object, house: House) -> Ending:
        return outcome

    run = observed(ends, settings(tmp_path, otel=True))
    assert anyio.run(run, asked("pour", name="green", note=SECRET), kitchen.house) is outcome
    begun, ended = seen
    assert isinstance(begun, telemetry.Begun) and isinstance(ended, telemetry.Ended)
    assert (ended.outcome, ended.code, ended.decision) == expected
    assert SECRET not in repr(seen)
