"""`GET /api/v1/events`: what happens, as Server-Sent Events."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct
from starlette.responses import StreamingResponse

from metier.doors.http.endpoint import Asking, Endpoint
from metier.doors.http.live import Change, frames
from metier.model.role import APPROVE, READ_AUDIT

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

BEAT_SECONDS: Final = 15.0
LOOK_SECONDS: Final = 1.0
"""So long somebody who was revoked may still be told something."""


@final
class After(Struct, frozen=True, kw_only=True):
    """From where on he wants to be told; a browser cannot say it in a header."""

    after: Annotated[int, Meta(ge=0, lt=10**15)] | None = None


class _Stream(StreamingResponse):
    """Starlette's, which ends when the client goes; whatever it was reading is closed with it."""

    media_type = "text/event-stream"

    def __init__(self, content: object, stop: Callable[[], None]) -> None:
        super().__init__(content, headers={"cache-control": "no-store", "x-accel-buffering": "no"})  # type: ignore[arg-type]
        self._stop = stop

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stop()


async def _events(asking: Asking) -> object:
    serving, identity = asking.serving, asking.identity
    rights = await asking.rights()
    everything = await asking.sees_all(READ_AUDIT, APPROVE)

    def may_see(change: Change) -> bool:
        """A person who may read the record sees all of it; everybody else what is his own. A decision belongs to who asked for it."""
        decided = change.kind == "approval.decided"
        whose = (change.asked_by, change.asked_for) if decided else (change.principal, change.on_behalf_of)
        said_to_all = not change.principal and change.kind in ("skills.changed", "reset")
        return everything or asking.is_his(*whose) or said_to_all

    async def still() -> bool:
        come_so = await to_thread.run_sync(serving.gatekeeper.still, identity)
        return come_so and await asking.rights() >= rights

    last = asking.request.headers.get(
        "last-event-id", ""
    )  # of who was cut off: it is newer than what he began with
    given: After = asking.query
    after = int(last) if last.isascii() and last.isdigit() and len(last) < 16 else given.after
    missed, changes, stop = await serving.live.listen(identity.principal, after, may_see)
    return _Stream(frames(missed, changes, still, beat=BEAT_SECONDS, look=LOOK_SECONDS), stop)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/events",
        about="What happens, as it happens: what waits and what was decided, calls that began and ended, skills that changed.",
        does=_events,
        headers=("Last-Event-ID",),
        query=After,
        stream=True,
        problems=(503,),
    ),
)
