"""One thing that can be asked over HTTP by who was let in: what it takes, who may, and what is answered.

The order is fixed: who asks, whether that is his to ask, then what he asks. Nothing that he sent says who he is.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast, final

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from metier.doors.http.bodies import read_body
from metier.doors.http.described import JSON, Described
from metier.doors.http.problem import Refusal, not_found, of_error, problem
from metier.doors.http.room import let_in
from metier.doors.http.routing import no_such_method
from metier.doors.http.serving import Serving
from metier.errors import MetierError
from metier.gate.roles import needed
from metier.model.skill import Tool
from metier.model.text import one_line
from metier.runtime import Runtime

if TYPE_CHECKING:
    from metier.doors.http.identity import Identity

NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,79}$"
PARAMETERS: Final[Mapping[str, str]] = {
    "approval": r"^apr_[0-9a-f]{8,64}$",
    "call": r"^call_[0-9a-f]{8,64}$",
    "skill": NAME,
    "module": r"^[A-Za-z][A-Za-z0-9_-]{0,63}$",
    "operation": r"^[A-Za-z][A-Za-z0-9_-]{0,63}$",
    "token": r"^[0-9a-f]{12}$",
    "seq": r"^[1-9][0-9]{0,15}$",
    "thread": r"^[1-9][0-9]{0,15}$",
}
"""What stands in a path, by its name there."""
_PATTERNS: Final = {name: re.compile(pattern, re.ASCII) for name, pattern in PARAMETERS.items()}


@final
class Asking:
    """One request of somebody who was let in."""

    def __init__(self, serving: Serving, request: Request, identity: "Identity") -> None:
        self.serving = serving
        self.request = request
        self.identity = identity
        self.given: Mapping[str, str] = request.path_params
        self.query: Any = None
        self.body: Any = None

    @property
    def runtime(self) -> Runtime:
        """Everything, as this principal sees it."""
        return self.serving.runtime(self.identity)

    async def rights(self) -> frozenset[str]:
        """What he may do at this moment, within what his token may."""
        return await self.serving.gatekeeper.rights(self.identity)

    async def sees_all(self, *rights: str) -> bool:
        """Whether he sees also what is not his: a person who has one of these rights. An agent sees its own, whatever it may do."""
        return self.identity.principal.kind == "human" and bool(frozenset(rights) & await self.rights())

    def is_his(self, principal: str, on_behalf_of: str) -> bool:
        """Whether what this principal does is his own: he does it, or it is done on his behalf. Nobody says himself for whom he acts."""
        return self.identity.principal.id in (principal, on_behalf_of)

    async def offered(self) -> Callable[[Tool], bool]:
        """Says of a tool whether he is shown it: what the gate would always refuse him is not offered."""
        rights, human = await self.rights(), self.identity.principal.kind == "human"

        def shown(tool: Tool) -> bool:
            his = human or (tool.audience == "model" and not tool.privileged)
            return his and needed(tool) in rights

        return shown

    async def require(self, *rights: str) -> None:
        """
        Raises:
            Refusal: when he has none of them.
        """
        if not frozenset(rights) & await self.rights():
            raise forbidden(*rights)


def led_here(request: Request) -> bool:
    """Whether a page of somebody else led him here, as far as his browser tells."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def forbidden(*rights: str) -> Refusal:
    """He was let in, and may not do this."""
    return Refusal(
        403,
        "forbidden",
        f"it takes the right {' or '.join(map(repr, rights))}",
        remedy="Nobody gave you that right; a person may give it, or do it himself",
    )


@final
class Endpoint(Described, frozen=True, kw_only=True):
    """What is done for somebody who was let in."""

    does: Callable[[Asking], Awaitable[object]]
    """Gives what is answered: a Response, or what becomes JSON."""
    right: tuple[str, ...] = ()
    """He must have one of these; empty where the gate or the endpoint itself decides."""
    people: bool = False
    """Only for people: agents make calls, and everything is a call for them."""


async def answered(serving: Serving, methods: Mapping[str, Endpoint], request: Request) -> Response:
    """The answer to one request for a path that there is."""
    try:
        identity = await serving.gatekeeper.who(request.headers, request.method)
        let_in(request.scope, identity.principal)
        endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            raise no_such_method({*methods, *(("HEAD",) if "GET" in methods else ())})
        if endpoint.stream and request.method == "HEAD":
            raise Refusal(
                405,
                "method_not_allowed",
                "here there is GET: a stream has no head alone",
                remedy="Use that",
                allow="GET",
            )
        asking = Asking(serving, request, identity)
        if endpoint.people and identity.principal.kind != "human":
            raise Refusal(
                403,
                "forbidden",
                "this is for people; an agent makes calls",
                remedy="Let a person do it; what an agent may call is at /api/v1/tools and /api/v1/modules",
            )
        if endpoint.right:
            await asking.require(*endpoint.right)
        check_path(request)
        asking.query = read_query(request, endpoint.query)
        if endpoint.body is not None:
            asking.body = await read_body(request, endpoint.body)
        made = await endpoint.does(asking)
        return made if isinstance(made, Response) else as_json(made)
    except Refusal as refusal:
        return problem(refusal)
    except MetierError as error:
        serving.log.warning("%s %s: %s", request.method, request.url.path[:200], one_line(str(error), 500))
        return problem(of_error(error))
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it


NO_STORE: Final = {"cache-control": "no-store"}
"""For what lets somebody in. The guard says it for everything else."""


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as it is sent."""
    return Response(msgspec.json.encode(value), status, headers, media_type=JSON)


def check_path(request: Request) -> None:
    for name, value in cast("dict[str, str]", request.path_params).items():
        if not _PATTERNS[name].fullmatch(value):
            raise not_found()


def read_query(request: Request, shape: type[Struct] | None) -> object:
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    if len(names) != len(set(names)):
        raise Refusal(400, "bad_request", "a query parameter is given twice", remedy="Give each once")
    known = (
        {field.encode_name for field in msgspec.structs.fields(shape)} if shape is not None else set[str]()
    )
    if odd := set(names) - known:
        raise Refusal(
            400,
            "bad_request",
            f"there is no query parameter {one_line(min(odd), 60)!r} here",
            remedy=f"There is {', '.join(sorted(known)) or 'none'}",
        )
    if shape is None:
        return None
    try:
        return msgspec.convert(dict(given), shape, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(
            400,
            "bad_request",
            one_line(str(error), 300),
            remedy="What a parameter may be stands in /api/v1/openapi.json",
        ) from None
