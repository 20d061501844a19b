"""Whether it is there, whether it can work, and its counters. Who has no business here learns nothing else."""

from collections.abc import Sequence

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from metier.doors.http.endpoint import as_json, forbidden, no_such_method
from metier.doors.http.problem import Refusal, of_error, problem
from metier.doors.http.serving import Serving
from metier.errors import MetierError
from metier.model.role import READ_AUDIT


def health_routes(serving: Serving) -> Sequence[BaseRoute]:
    """`/healthz`, `/readyz` and `/metrics`."""

    async def alive(request: Request) -> Response:
        return as_json({"ok": True})

    async def ready(request: Request) -> Response:
        """Whether a call could be recorded now."""
        if serving.ending.is_set() or serving.engine.closed:
            return problem(Refusal(503, "ending", "this server is about to end"))
        try:
            await to_thread.run_sync(serving.engine.state.database.require_in_place)
            await to_thread.run_sync(serving.engine.state.log.head)
        except MetierError:
            return problem(Refusal(503, "not_ready", "the state cannot be used at the moment"))
        return as_json({"ok": True})

    async def metrics(request: Request) -> Response:
        """For who may read the record: names of tools are nobody else's business."""
        try:
            identity = await serving.gatekeeper.who(request.headers, request.method)
            if READ_AUDIT not in await serving.gatekeeper.rights(identity):
                raise forbidden(READ_AUDIT)
            if not serving.engine.seen.settings.telemetry.prometheus:
                raise Refusal(
                    404, "not_found", "no counters are kept", remedy="Set prometheus = true under [telemetry]"
                )
            from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

            from metier.telemetry import registry

            text = await to_thread.run_sync(generate_latest, registry())
            return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
        except Refusal as refusal:
            return problem(refusal)
        except MetierError as error:
            return problem(of_error(error))

    return [
        _only_read(path, does)
        for path, does in (("/healthz", alive), ("/readyz", ready), ("/metrics", metrics))
    ]


def _only_read(path: str, does: "object") -> Route:
    async def asked(request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return problem(no_such_method({"GET": does}))
        return await does(request)  # type: ignore[operator]

    made = Route(path, asked)
    made.methods = set()
    return made
