"""`http`: running code has a request sent through egress, which holds every check.

A secret is named in the place of a header value, `{"secret": NAME, "before": "Bearer "}`, and put in on the way
out; the code never holds it. A private address that the code itself named is a violation; one that may have come from
a name server, a server, the caller or the operator is refused and counted, for that was not the skill's doing.
"""

import base64
import binascii
from typing import Final, final

import anyio

from metier.host.secrets import Reveal
from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.egress import Egress, MakeEgress
from metier.sandbox.egress_limits import RETRIES, EgressLimits
from metier.sandbox.given import Given
from metier.sandbox.reply import Answer, Denied, Failed, Reply, Violation
from metier.sandbox.reply_words import as_text, failure_name, header_object
from metier.sandbox.secret import SecretRef

LIMITS: Final = EgressLimits(download_bytes=750_000, total_seconds=300.0, retries=RETRIES)
"""What comes back must fit into one message, also in base64. The call's own time ends it earlier."""
_TAKES: Final = {"method", "url", "headers", "body", "timeout_ms", "follow"}


@final
class Http:
    """Requests of one call, over one Egress that is opened with the first of them."""

    def __init__(
        self,
        hosts: frozenset[str],
        reveal: Reveal,
        make: MakeEgress = Egress,
        *,
        given: Json | Given = None,
        secrets: frozenset[str] = frozenset(),
    ) -> None:
        """`given` is what the call was given from outside. `secrets` are the names of all that were granted to it, for
        the mask: a server may know one from another call."""
        self._hosts = hosts
        self._given = given if isinstance(given, Given) else Given(given)
        self._secrets = secrets
        self._reveal = reveal
        self._make = make
        self._egress: Egress | None = None

    def allowed(self, permissions: PermissionSet) -> bool:
        return True  # egress judges every address: one that is public and not granted is denied, no violation

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        read = _read(params)
        if isinstance(read, NotAnswered):
            return read
        method, url, headers, secrets, body, seconds, follow = read
        if self._egress is None:
            self._egress = await self._make(
                hosts=self._hosts, limits=LIMITS, reveal=self._reveal, secrets=self._secrets
            ).__aenter__()
        reply: Reply = Failed(code="timed_out", message=f"It took longer than {seconds:g} seconds")
        with anyio.move_on_after(seconds):
            reply = await self._egress.request(
                method, url, headers=headers, body=body, secrets=secrets, follow=follow
            )
        if isinstance(reply, Violation) and await self._given.named(reply.host, reply.address):
            return NotAnswered(name="PermissionDenied", message=reply.message, kind="denied")
        return _answer(reply)

    async def aclose(self) -> None:
        """Close every connection of the call."""
        egress, self._egress = self._egress, None
        if egress is not None:
            await egress.__aexit__(None, None, None)


_Read = tuple[str, str, dict[str, str], dict[str, SecretRef], bytes, float, bool]


def _read(params: dict[str, Json]) -> _Read | NotAnswered:
    method, url = params.get("method", "GET"), params.get("url")
    timeout, follow = params.get("timeout_ms", 30_000), params.get("follow", True)
    if not set(params) <= _TAKES:
        return _invalid(f"it takes {', '.join(sorted(_TAKES))}")
    if not isinstance(method, str) or not isinstance(url, str):
        return _invalid("`method` and `url` are texts")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        return _invalid("`timeout_ms` is a number above zero")
    if not isinstance(follow, bool):
        return _invalid("`follow`, whether redirects are followed, is true or false")
    lines = _headers(params.get("headers"))
    body = _body(params.get("body"))
    if lines is None:
        return _invalid('a header value is a text, or {"secret": NAME, "before": TEXT}')
    if body is None:
        return _invalid('`body` is a text, or {"base64": TEXT}')
    return method.upper(), url, *lines, body, min(timeout / 1000, LIMITS.total_seconds), follow


def _headers(given: Json) -> tuple[dict[str, str], dict[str, SecretRef]] | None:
    plain: dict[str, str] = {}
    secrets: dict[str, SecretRef] = {}
    if given is None:
        return plain, secrets
    if not isinstance(given, dict):
        return None
    for name, value in given.items():
        match value:
            case str():
                plain[name] = value
            case {"secret": str(secret), **more} if set(more) <= {"before"}:
                before = more.get("before", "")
                if not isinstance(before, str):
                    return None
                secrets[name] = SecretRef(name=secret, before=before)
            case _:
                return None
    return plain, secrets


def _body(given: Json) -> bytes | None:
    match given:
        case None:
            return b""
        case str():
            return given.encode()
        case {"base64": str(text)} if len(given) == 1:
            try:
                return base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return None
        case _:
            return None


def _answer(reply: Reply) -> Answered | NotAnswered:
    match reply:
        case Answer():
            return Answered(value=_shown(reply))
        case Denied():
            return NotAnswered(name="PermissionDenied", message=reply.message, kind="denied")
        case Violation():
            kind = "violation" if reply.cause == "request" else "denied"
            return NotAnswered(name="PermissionDenied", message=reply.message, kind=kind)
        case Failed():
            return NotAnswered(name=failure_name(reply.code), message=reply.message)


def _shown(answer: Answer) -> dict[str, Json]:
    text = as_text(answer.body, cut=answer.truncated)
    return {
        "status": answer.status,
        "headers": header_object(answer),
        "body": base64.b64encode(answer.body).decode() if text is None else text,
        "encoding": "base64" if text is None else "text",
        "truncated": answer.truncated,
        "url": answer.url,
    }


def _invalid(why: str) -> NotAnswered:
    return NotAnswered(name="InvalidRequest", message=f"http is refused: {why}")
