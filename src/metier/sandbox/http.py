"""The backend for entries that are one HTTP request. It is our own code that sends it, through egress.

What a server answers below 400 is returned; from 400 on the call raised, with the server's own words. A place that
was not granted is a denial. A private place is a violation only where the call itself named it: what a name server or
a redirect came up with must not disable a skill.
"""

import time
from collections.abc import Callable
from typing import Final, final

from msgspec.structs import replace

from metier.errors import ConfigError
from metier.model.digest import Json
from metier.model.entry import HttpRequest
from metier.model.guarantee import Guarantee
from metier.model.job import Event, Fault, Job, Report, Usage
from metier.model.strictjson import loads
from metier.sandbox.admission import Admission, not_started
from metier.sandbox.egress import Egress, MakeEgress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.http_template import Filled, Unfilled, fill
from metier.sandbox.protocol import Missing
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.reply_words import as_text, failure_name, header_object

_GUARANTEES: Final = frozenset(
    {Guarantee.NETWORK_BY_GRANT, Guarantee.CPU_BOUNDED, Guarantee.OUTPUT_BOUNDED, Guarantee.FRESH_STATE}
)
_AT_ONCE: Final = 64
_MOST_SECONDS: Final = 300.0
_LONGEST_DETAIL: Final = 2_000


@final
class HttpSandbox:
    """Sends the request of a job and reports what came of it."""

    def __init__(self, reveal: Callable[[str], str | None], make: MakeEgress = Egress) -> None:
        """`reveal` gives the value of a secret by name; a job gets those its permissions name."""
        self._reveal = reveal
        self._make = make
        self._admission = Admission(_AT_ONCE)

    @property
    def name(self) -> str:
        return "http"

    def takes(self, job: Job) -> bool:
        """One HTTP request."""
        return isinstance(job.entry, HttpRequest)

    def guarantees(self) -> frozenset[Guarantee]:
        """The same on every machine: no code of a skill runs."""
        return _GUARANTEES

    def missing(self) -> tuple[Missing, ...]:
        """Nothing: it needs nothing of the machine."""
        return ()

    async def aclose(self) -> None:
        """Nothing is kept between calls."""

    async def run(self, job: Job) -> Report:
        """Send the request; every end is a report."""
        began = time.monotonic()
        report = await self._admission.run(job, self._run)
        return replace(report, usage=replace(report.usage, seconds=time.monotonic() - began))

    async def _run(self, job: Job) -> Report:
        if not isinstance(job.entry, HttpRequest):
            return not_started("This backend sends HTTP requests and runs nothing else")
        try:
            request = fill(job.entry, job.arguments)
        except Unfilled as problem:
            return _raised("InvalidRequest", f"The request is refused: {problem}")
        wanted = {secret.name for secret in request.secrets.values()} - job.permissions.secrets
        if wanted:
            said = f"the secret {min(wanted)!r} is not granted to this skill"
            return _raised("PermissionDenied", said, denied=Event(kind="secret", detail=said))
        try:
            return _report(await self._send(request, job))
        except ConfigError as problem:
            return not_started(str(problem))

    async def _send(self, request: Filled, job: Job) -> Reply:
        seconds = min(job.limits.timeout, _MOST_SECONDS)
        limits = EgressLimits(
            total_seconds=seconds,
            read_seconds=seconds,
            download_bytes=max(job.limits.output_bytes, 0),
            retries=request.retries,
        )
        granted = job.permissions.secrets
        egress = self._make(
            hosts=job.permissions.hosts,
            limits=limits,
            reveal=lambda name: self._reveal(name) if name in granted else None,
            secrets=granted,
        )
        async with egress:
            return await egress.request(
                request.method,
                request.url,
                headers=request.headers,
                body=request.body,
                secrets=request.secrets,
            )


def _report(reply: Reply) -> Report:
    match reply:
        case Answer() if reply.status >= 400:
            report = _raised(f"Http{reply.status}", _detail(reply))
            return replace(report, truncated=reply.truncated, usage=Usage(output_bytes=len(reply.body)))
        case Answer():
            return Report(
                ending="returned",
                value={
                    "status": reply.status,
                    "headers": header_object(reply),
                    "body": _body(reply),
                },
                truncated=reply.truncated,
                usage=Usage(output_bytes=len(reply.body)),
            )
        case Denied():
            event = Event(kind="egress", detail=reply.message)
            return _raised("PermissionDenied", reply.message, denied=event)
        case Violation(cause="request"):
            return Report(
                ending="stopped",
                fault=Fault(name="PermissionDenied", message=reply.message),
                violations=(Event(kind="egress", detail=reply.message),),
            )
        case Violation():
            event = Event(kind="egress", detail=reply.message)
            return _raised("PermissionDenied", reply.message, denied=event)
        case Failed(code="timed_out"):
            return Report(ending="timed_out", fault=Fault(name="TimedOut", message=reply.message))
        case Failed():
            return _raised(failure_name(reply.code), reply.message)


def _detail(answer: Answer) -> str:
    said = (as_text(answer.body, cut=answer.truncated) or "").strip()
    head = f"{answer.url} answered {answer.status}"
    return f"{head}: {said[:_LONGEST_DETAIL]}" if said else head


def _body(answer: Answer) -> Json:
    """The value where the server says it is JSON and it is; else the text; what is no text as base64."""
    text = as_text(answer.body, cut=answer.truncated)
    if text is None:
        import base64  # most servers answer in words

        return {"base64": base64.b64encode(answer.body).decode()}
    kind = next((value for name, value in answer.headers if name == "content-type"), "")
    kind = kind.partition(";")[0].strip().lower()
    if (kind == "application/json" or kind.endswith("+json")) and not answer.truncated:
        try:
            return loads(text)
        except ValueError:
            return text
    return text


def _raised(name: str, message: str, *, denied: Event | None = None) -> Report:
    fault = Fault(name=name, message=message)
    return Report(ending="raised", fault=fault, denials=(denied,) if denied else ())
