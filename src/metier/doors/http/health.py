"""Whether it is there, whether it can work, and its counters. Who has no business here learns nothing else."""

from collections.abc import Sequence
from functools import partial
from typing import Final, final

from anyio import to_thread
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from metier.doors.http.described import Described
from metier.doors.http.endpoint import as_json, forbidden
from metier.doors.http.problem import Refusal, of_error, problem
from metier.doors.http.routing import only
from metier.doors.http.serving import Serving
from metier.errors import MetierError
from metier.kernel.host_role import holder
from metier.model.role import READ_AUDIT
from metier.model.text import one_line


@final
class Fine(Struct, frozen=True, kw_only=True):
    """It is."""

    ok: bool = True


HEALTH: Final = Described(
    method="GET", path="/healthz", about="Whether the server is there.", by=(), answer=Fine
)
READY: Final = Described(
    method="GET",
    path="/readyz",
    about="Whether a call could be judged and recorded now.",
    by=(),
    answer=Fine,
)
METRICS: Final = Described(
    method="GET",
    path="/metrics",
    about="Counters for Prometheus, where they are kept. Takes the right to read the record.",
    answer=str,
    kind="text/plain",
    problems=(404,),
)
DESCRIBED: Final = (HEALTH, READY, METRICS)


def health_routes(serving: Serving) -> Sequence[BaseRoute]:
    """`/healthz`, `/readyz` and `/metrics`."""

    async def alive(request: Request) -> Response:
        return as_json(Fine())

    async def ready(request: Request) -> Response:
        """Whether a call could be judged and recorded now."""
        if serving.ending.is_set() or serving.engine.closed:
            return problem(Refusal(503, "ending", "this server is about to end", remedy="Ask the next one"))
        try:
            await to_thread.run_sync(serving.engine.state.database.require_in_place)
            await to_thread.run_sync(serving.engine.state.log.head)
        except MetierError:
            return _not_ready("state")
        try:
            await serving.engine.refresh()
        except MetierError as error:
            serving.log.debug("not ready: %s", one_line(str(error), 500))
            return _not_ready("configuration")
        return as_json(Fine())

    async def metrics(request: Request) -> Response:
        """For who may read the record: names of tools are nobody else's business."""
        try:
            identity = await serving.gatekeeper.who(request.headers)
            if READ_AUDIT not in await serving.gatekeeper.rights(identity):
                raise forbidden(READ_AUDIT)
            if not serving.engine.seen.settings.telemetry.prometheus:
                raise Refusal(
                    404, "not_found", "no counters are kept", remedy="Set prometheus = true under [telemetry]"
                )
            from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

            from metier.telemetry import registry

            engine = serving.engine
            host = partial(_host, engine.seen.settings.home, here=engine.kernel.hosting is not None)
            text = await to_thread.run_sync(generate_latest, registry()) + await to_thread.run_sync(host)
            return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
        except Refusal as refusal:
            return problem(refusal)
        except MetierError as error:
            return problem(of_error(error))

    return [only(HEALTH.path, alive), only(READY.path, ready), only(METRICS.path, metrics)]


def _not_ready(what: str) -> Response:
    """Who asks may be a stranger: the log and the commands on that machine say which file it is, and what is wrong with it."""
    remedy = "Any `metier` command on that machine says what is wrong, and so does the log of this server"
    why = f"the {what} cannot be used at the moment, so every call is refused"
    return problem(Refusal(503, "not_ready", why, remedy=remedy))


def _host(home: str, *, here: bool) -> bytes:
    """Counters of the host role. Calls work without a host, so a server without one is ready all the same. Blocking."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    counted = CollectorRegistry()
    text = "Whether skills that live, channels and schedules run"
    Gauge("metier_host_here", f"{text} in this process.", registry=counted).set(here)
    try:
        runs = here or holder(home) is not None
    except MetierError:
        return generate_latest(counted)  # no number is better than a wrong one
    Gauge("metier_host_running", f"{text} anywhere.", registry=counted).set(runs)
    return generate_latest(counted)
