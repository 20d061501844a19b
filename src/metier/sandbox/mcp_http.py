"""An MCP server at an address: each message is one POST through egress, and its answer is read whole.

The answer is one message, or a stream of events among which ours is found by its number. What else stands in the stream is passed
over: nobody is asked anything over HTTP. The server's name for the conversation is sent back to it and nobody else.
"""

import re
from typing import Final, final

import anyio
from anyio import to_thread

from metier.model.digest import Json
from metier.model.job import Event, Job
from metier.model.text import one_line
from metier.sandbox import mcp_message
from metier.sandbox.egress import MakeEgress
from metier.sandbox.egress_limits import EgressLimits
from metier.sandbox.http_template import Filled
from metier.sandbox.mcp import Reveal
from metier.sandbox.mcp_message import Answered, Erred, Unusable
from metier.sandbox.mcp_peer import Said, Trouble, unusable
from metier.sandbox.mcp_session import HANDSHAKE, STATELESS
from metier.sandbox.reply import Answer, Denied, Failed, Violation

_ID: Final = re.compile(r"[!-~]{1,512}", re.ASCII)
_HEADER_SAFE: Final = re.compile(r"[!-~](?:[ -~]{0,254}[!-~])?", re.ASCII)
_MOST_SECONDS: Final = 300.0
_GIVE_UP_SECONDS: Final = 1.0
"""A call that was given up or is late waits for this too."""
_CANCELLED: Final = "notifications/cancelled"
_LOST: Final = re.compile(rb"session|not initialized", re.IGNORECASE)
"""Many servers say 400, and this, where 404 is meant."""
_LINES: Final = re.compile(r"\r\n|\r|\n")


@final
class HttpPeer:
    """One conversation. What it may reach and reveal is that of the job it was last given."""

    def __init__(self, filled: Filled, reveal: Reveal, make: MakeEgress) -> None:
        self._filled = filled
        self._reveal = reveal
        self._make = make
        self._job: Job | None = None
        self._name = ""
        self._version = ""
        self._last = 0

    def give(self, job: Job) -> None:
        """The call that what is asked next belongs to."""
        self._job = job

    async def ask(self, method: str, params: dict[str, Json], seconds: float) -> Said:
        number = self._last = self._last + 1
        if method == "server/discover":
            self._version = STATELESS
        body = mcp_message.request(number, method, params)
        name = params.get("name")
        job = self._job
        try:
            answer = await self._send(job, body, method, name if isinstance(name, str) else "", seconds)
        except anyio.get_cancelled_exc_class():
            await self._give_up(job, number, method)
            raise
        if isinstance(answer, Trouble):
            if answer.kind == "late":
                await self._give_up(job, number, method)
            return answer
        large = len(answer.body) > mcp_message.LARGE  # everybody else's calls are on the loop
        asked = (answer, number, bool(self._name))
        found = await to_thread.run_sync(_answer_in, *asked) if large else _answer_in(*asked)
        if method == "initialize" and not isinstance(found, Trouble):
            self._name = next((value for key, value in answer.headers if key == "mcp-session-id"), "")
            version = found.get("protocolVersion")
            self._version = version if isinstance(version, str) and version in HANDSHAKE else ""
            if self._name and not _ID.fullmatch(self._name):
                return Trouble(kind="bad", message="its name for the conversation is none")
        return found

    async def tell(self, method: str, params: dict[str, Json]) -> None:
        await self._send(self._job, mcp_message.notice(method, params), method, "", 10.0)

    async def _give_up(self, job: Job | None, number: int, method: str) -> None:
        """Nobody waits for this any more: the server may stop. Up to 2025-11-25 a connection that is closed does not say so, later
        it does and nothing else may."""
        if method == "initialize" or self._version == STATELESS:
            return
        body = mcp_message.notice(_CANCELLED, {"requestId": number})
        with anyio.move_on_after(_GIVE_UP_SECONDS, shield=True):
            await self._send(job, body, _CANCELLED, "", _GIVE_UP_SECONDS)

    async def part(self) -> None:
        """The server need not remember the conversation. Whether it can be told so is its own matter."""
        if self._name:
            await self._send(self._job, b"", "", "", _GIVE_UP_SECONDS, verb="DELETE")

    async def _send(
        self, job: Job | None, body: bytes, method: str, name: str, seconds: float, *, verb: str = "POST"
    ) -> Answer | Trouble:
        if job is None:
            return Trouble(kind="bad", message="no call asks")
        granted = job.permissions.secrets
        seconds = min(seconds, _MOST_SECONDS)
        egress = self._make(
            hosts=job.permissions.hosts,
            limits=EgressLimits(
                total_seconds=seconds,
                read_seconds=seconds,
                upload_bytes=mcp_message.MOST_BYTES,
                download_bytes=mcp_message.MOST_BYTES,
                redirects=0,
            ),
            reveal=lambda wanted: self._reveal(wanted) if wanted in granted else None,
            secrets=granted,
        )
        headers = {
            **self._filled.headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **({"Mcp-Session-Id": self._name} if self._name else {}),
            **({"MCP-Protocol-Version": self._version} if self._version else {}),
        }
        if self._version == STATELESS:
            headers |= {"Mcp-Method": method} | ({"Mcp-Name": name} if _HEADER_SAFE.fullmatch(name) else {})
        async with egress:
            reply = await egress.request(
                verb,
                self._filled.url,
                headers=headers,
                body=body,
                secrets=self._filled.secrets,
                follow=False,
            )
        match reply:
            case Answer(status=404) if self._name:
                return Trouble(kind="gone", message="the server has forgotten the conversation")
            case Answer(truncated=True):
                return Trouble(kind="bad", message=f"it answered more than {mcp_message.MOST_BYTES:,} bytes")
            case Answer():
                return reply
            case Denied():
                return Trouble(
                    kind="denied", message=reply.message, event=Event(kind="egress", detail=reply.message)
                )
            case Violation(cause="request"):
                return Trouble(
                    kind="violation", message=reply.message, event=Event(kind="egress", detail=reply.message)
                )
            case Violation():
                return Trouble(
                    kind="denied", message=reply.message, event=Event(kind="egress", detail=reply.message)
                )
            case Failed(code="timed_out"):
                return Trouble(kind="late", message=reply.message)
            case Failed():
                return Trouble(kind="bad", message=reply.message)


def _answer_in(answer: Answer, number: int, in_conversation: bool) -> Said:
    """What stands under our number in an answer."""
    kind = (
        next((value for key, value in answer.headers if key == "content-type"), "").partition(";")[0].strip()
    )
    pieces = _events(answer.body) if kind.lower() == "text/event-stream" else [answer.body]
    for piece in pieces:
        match mcp_message.read(piece):
            case Answered(id=found, result=result) if found == number:
                return result
            case Erred(id=found, code=code, message=said) if found == number:
                return Trouble(kind="error", message=said, code=code)
            case Unusable(id=found, why=why) if found == number:
                return unusable(why)
            case _:
                continue
    if in_conversation and answer.status == 400 and _LOST.search(answer.body[:2_000]):
        return Trouble(kind="gone", message="the server has forgotten the conversation")
    return Trouble(kind="bad", message=_no_answer(answer))


def _no_answer(answer: Answer) -> str:
    """What is told of an answer that is none, with what to do about those that are often met."""
    said = one_line(answer.body[:500].decode(errors="replace"), 300)
    match answer.status:
        case 301 | 302 | 303 | 307 | 308:
            where = next((value for key, value in answer.headers if key == "location"), "")
            return (
                f"it has moved to {one_line(where, 300) or 'a place it does not name'}; if that is the server you mean, write its address as "
                "`url`, and nobody is followed elsewhere"
            )
        case 401 | 403:
            return (
                f"it answered {answer.status} and wants to know who asks: give it a token as a header, such as "
                "`Authorization: Bearer {{secret:NAME}}` (Metier does not sign in by OAuth)"
            )
        case 405:
            return "it answered 405: it does not speak streamable HTTP at this address, perhaps only the older SSE"
        case status if status >= 400:
            return f"it answered {status}: {said}"
        case _:
            return "what it answered holds no answer to what was asked"


def _events(body: bytes) -> list[bytes]:
    """The data of each event in a stream of them."""
    found: list[bytes] = []
    data: list[str] = []
    for line in _LINES.split(body.decode(errors="replace")):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            found.append("\n".join(data).encode())
            data = []
    return found
