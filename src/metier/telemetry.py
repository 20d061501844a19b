"""What others may watch of the calls that go through the gate: spans for OpenTelemetry, counters for Prometheus.

Off unless the operator switched it on, and imported no sooner. It sees which tool was called by whom and how that ended, and
never an argument, a result or a message. Whatever breaks in it is logged, and the call knows nothing of it. It opens no
connection: spans go to the provider that the program around Metier set up, and counters wait to be fetched.
"""

import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias, TypeVar, cast, final

from msgspec import Struct
from msgspec.structs import replace

from metier.config.settings import Settings
from metier.errors import ConfigError, MetierError
from metier.gate.situation import Situation
from metier.model.call import Call, ValidCall
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.skill import Tool
from metier.record.database import open_if_there
from metier.record.pending import pending_in

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

UNKNOWN_TOOL: Final = "unknown"
"""Stands for every name that is no tool: it is a caller's text, and there is no end to such names."""
_BUCKETS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
_T = TypeVar("_T")
_Made = TypeVar("_Made")
_log: Final = logging.getLogger("metier.telemetry")


@final
class Begun(Struct, frozen=True, kw_only=True):
    """A call that begins."""

    call_id: str
    tool: str
    principal: str


@final
class Ended(Struct, frozen=True, kw_only=True):
    """How it ended."""

    tool: str
    skill: str = ""
    outcome: str
    """`completed`, `pending`, `refused` or `failed`."""
    code: str = ""
    decision: str = ""
    """What the gate as a whole did: `allow` let it through, `ask` has it wait, `deny` refused it."""
    seconds: float


class House(Protocol):
    """What is looked at of the house that a call goes through: which tools there are, and which skill it concerns."""

    @property
    def tools(self) -> Mapping[str, Tool]: ...
    @property
    def look(self) -> Callable[[ValidCall], Awaitable[Situation]]: ...


_House = TypeVar("_House", bound=House)
Run: TypeAlias = Callable[[Call, _House], Awaitable[Outcome]]
Watcher: TypeAlias = Callable[[Begun], Callable[[Ended], None]]


@final
class Telemetry:
    """Who looks on. Make one with `Telemetry.of`."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """As the operator wishes.

        Raises:
            ConfigError: when what he wishes is not installed.
        """
        watchers: list[Watcher] = []
        try:
            if settings.telemetry.otel:
                watchers.append(_spans())
            if settings.telemetry.prometheus:
                metrics = _metrics()
                metrics.pending.places.add(settings.database)
                watchers.append(metrics)
        except ImportError as error:
            raise ConfigError(
                f"[telemetry] is switched on, and {error.name or 'a package for it'} is not installed",
                remedy="Run: pip install 'metier[telemetry]', or switch it off in metier.toml",
            ) from None
        return cls(*watchers)

    def observed(self, run: Run[_House]) -> Run[_House]:
        """`run`, with whoever looks on; `run` itself where nobody does."""
        return partial(self._watched, run) if self._watchers else run

    async def _watched(self, run: Run[_House], call: Call, house: _House) -> Outcome:
        tool = call.tool if call.tool in house.tools else UNKNOWN_TOOL
        begun = Begun(call_id=call.id, tool=tool, principal=call.principal.id)
        enders = [end for each in self._watchers if (end := _unharmed(each, begun)) is not None]
        skill = ""

        async def look(valid: ValidCall) -> Situation:
            nonlocal skill
            skill = valid.skill.name if valid.skill is not None else ""
            return await house.look(valid)

        began = time.monotonic()
        outcome: Outcome | None = None
        try:
            outcome = await run(call, cast("_House", replace(cast("Struct", house), look=look)))
            return outcome
        finally:
            ended = _ended(outcome, tool=tool, skill=skill, seconds=time.monotonic() - began)
            for end in reversed(enders):
                _unharmed(end, ended)


def registry() -> "CollectorRegistry":
    """Where the counters of this process are, for whoever serves them. It takes the `telemetry` extra."""
    return _metrics().registry


def _unharmed(step: Callable[[_T], _Made], given: _T) -> _Made | None:
    """Do one step of watching. Whatever it raises ends here: a call does not depend on who looks on."""
    try:
        return step(given)
    except Exception:  # noqa: BLE001  exporters are not ours, and may fail in any way
        _log.warning("telemetry failed, and the call went on", exc_info=True)
        return None


def _ended(outcome: Outcome | None, *, tool: str, skill: str, seconds: float) -> Ended:
    match outcome:
        case Completed():
            kind, code, decision = "completed", "", "allow"
        case Failed(code=code):
            kind, decision = "failed", "allow"
        case Pending():
            kind, code, decision = "pending", "", "ask"
        case Refused(code=code):
            kind, decision = "refused", "deny"
        case None:
            broke = isinstance(sys.exception(), Exception)
            kind, code, decision = "failed", "internal" if broke else "interrupted", ""
    return Ended(tool=tool, skill=skill, outcome=kind, code=code, decision=decision, seconds=seconds)


def _spans() -> Watcher:
    """A span for every call, named and described as OpenTelemetry's conventions for GenAI have it."""
    from opentelemetry import context, trace

    tracer = trace.get_tracer("metier")

    def begin(begun: Begun) -> Callable[[Ended], None]:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": begun.tool,
            "gen_ai.tool.call.id": begun.call_id,
            "metier.principal": begun.principal,
        }
        span = tracer.start_span(f"execute_tool {begun.tool}", attributes=attributes)
        token = context.attach(trace.set_span_in_context(span))

        def end(ended: Ended) -> None:
            context.detach(token)
            said = {
                "metier.outcome": ended.outcome,
                "metier.decision": ended.decision,
                "metier.code": ended.code,
                "metier.skill": ended.skill,
            }
            if ended.outcome == "failed":
                said["error.type"] = ended.code
                span.set_status(trace.StatusCode.ERROR)
            span.set_attributes({name: value for name, value in said.items() if value})
            span.end()

        return end

    return begin


@cache
def _metrics() -> "_Metrics":
    return _Metrics()


@final
class _Metrics:
    """The counters of this process. Labels are names of tools there are and codes of ours, so they are few."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        self.registry = CollectorRegistry()
        self.pending = _Pending()
        self.registry.register(self.pending)
        self._calls = Counter(
            "metier_calls",
            "Calls that came to the gate, by how they ended.",
            ("tool", "outcome", "code"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "metier_call_duration_seconds",
            "How long calls took, with everything the gate does.",
            ("tool", "outcome"),
            registry=self.registry,
            buckets=_BUCKETS,
        )

    def __call__(self, begun: Begun) -> Callable[[Ended], None]:
        return self._end

    def _end(self, ended: Ended) -> None:
        self._calls.labels(ended.tool, ended.outcome, ended.code).inc()
        self._seconds.labels(ended.tool, ended.outcome).observe(ended.seconds)


@final
class _Pending:
    """How many calls wait, looked up when somebody asks: other processes queue and decide too."""

    def __init__(self) -> None:
        self.places: set[str] = set()
        """State databases."""

    def collect(self) -> "Iterator[Metric]":
        from prometheus_client.metrics_core import GaugeMetricFamily

        waiting = 0
        try:
            for place in sorted(self.places):
                database = open_if_there(place)
                if database is not None:
                    with database, database.reading() as connection:
                        waiting += pending_in(connection)
        except MetierError as error:
            _log.warning("how many calls wait could not be read: %s", error)
            return  # no number is better than a wrong one
        yield GaugeMetricFamily(
            "metier_pending_approvals", "Calls that wait for somebody's word.", value=waiting
        )
