"""One thing that can be asked over HTTP: what it takes, who may, and what is answered. The routes and the OpenAPI document are made
of these, so neither can say what the other does not.

The order is fixed: who asks, whether that is his to ask, then what he asks. Nothing that he sent says who he is.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast, final, get_origin

import msgspec
from anyio import to_thread
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from metier.doors.http.guard import MOST_BODY_BYTES
from metier.doors.http.problem import Refusal, not_found, of_error, problem
from metier.doors.http.room import let_in
from metier.doors.http.serving import Serving
from metier.errors import MetierError
from metier.gate.roles import needed
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.skill import Tool
from metier.model.text import one_line
from metier.runtime import Runtime

if TYPE_CHECKING:
    from metier.doors.http.identity import Identity

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
NAME: Final = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,79}$"
PARAMETERS: Final[Mapping[str, str]] = {
    "approval": r"^apr_[0-9a-f]{8,64}$",
    "call": r"^call_[0-9a-f]{8,64}$",
    "skill": NAME,
    "module": r"^[A-Za-z][A-Za-z0-9_-]{0,63}$",
    "operation": r"^[A-Za-z][A-Za-z0-9_-]{0,63}$",
    "token": r"^[0-9a-f]{12}$",
    "seq": r"^[1-9][0-9]{0,15}$",
}
"""What stands in a path, by its name there."""
_PATTERNS: Final = {name: re.compile(pattern, re.ASCII) for name, pattern in PARAMETERS.items()}
_T = TypeVar("_T")


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


def forbidden(*rights: str) -> Refusal:
    """He was let in, and may not do this."""
    return Refusal(
        403,
        "forbidden",
        f"it takes the right {' or '.join(map(repr, rights))}",
        remedy="Nobody gave you that right; a person may give it, or do it himself",
    )


@final
class Endpoint(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: Method
    path: str
    about: str
    """One sentence, for the document."""
    does: Callable[[Asking], Awaitable[object]]
    """Gives what is answered: a Response, or what becomes JSON."""
    right: tuple[str, ...] = ()
    """He must have one of these; empty where the gate or the endpoint itself decides."""
    people: bool = False
    """Only for people: agents make calls, and everything is a call for them."""
    query: type[Struct] | None = None
    body: type | None = None
    answer: Any = None
    """The type of what is answered with 200."""
    answers: Mapping[int, Any] = {}
    """Types of other answers that are no problems; None where they are empty."""
    problems: tuple[int, ...] = ()
    """Which problems there are besides those that every request may meet."""
    headers: tuple[str, ...] = ()
    """Request headers that mean something here, for the document."""
    stream: bool = False
    signed_in: bool = False
    """Only for a person who signed in himself: it takes a session, and no token."""


async def answered(serving: Serving, methods: Mapping[str, Endpoint], request: Request) -> Response:
    """The answer to one request for a path that there is."""
    try:
        identity = await serving.gatekeeper.who(request.headers, request.method)
        let_in(request.scope, identity.principal)
        endpoint = methods.get("GET" if request.method == "HEAD" else request.method)
        if endpoint is None:
            raise no_such_method(methods)
        if endpoint.stream and request.method == "HEAD":
            raise Refusal(
                405, "method_not_allowed", "here there is GET: a stream has no head alone", allow="GET"
            )
        asking = Asking(serving, request, identity)
        if endpoint.people and identity.principal.kind != "human":
            raise Refusal(403, "forbidden", "this is for people; an agent makes calls")
        if endpoint.right:
            await asking.require(*endpoint.right)
        _check_path(request)
        asking.query = _query(request, endpoint.query)
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


def no_such_method(methods: Mapping[str, object]) -> Refusal:
    """The path is there, and not for this."""
    allowed = ", ".join(sorted({*methods, *(("HEAD",) if "GET" in methods else ())}))
    return Refusal(405, "method_not_allowed", f"here there is {allowed}", allow=allowed)


def as_json(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """`value` as it is sent."""
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def _check_path(request: Request) -> None:
    for name, value in cast("dict[str, str]", request.path_params).items():
        if not _PATTERNS[name].fullmatch(value):
            raise not_found()


def _query(request: Request, shape: type[Struct] | None) -> object:
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    if len(names) != len(set(names)):
        raise Refusal(400, "bad_request", "a query parameter is given twice")
    known = (
        {field.encode_name for field in msgspec.structs.fields(shape)} if shape is not None else set[str]()
    )
    if odd := set(names) - known:
        raise Refusal(400, "bad_request", f"there is no query parameter {one_line(min(odd), 60)!r} here")
    if shape is None:
        return None
    try:
        return msgspec.convert(dict(given), shape, strict=False)
    except msgspec.ValidationError as error:
        raise Refusal(400, "bad_request", one_line(str(error), 300)) from None


async def read_body(request: Request, shape: type[_T]) -> _T:
    """The body as strict JSON of this shape.

    Raises:
        Refusal: when it is not.
    """
    data = await request.body()
    if not data and may_be_left_out(shape):
        data = b"{}"
    try:
        value = _loads(data) if len(data) < _SMALL else await to_thread.run_sync(_loads, data)
    except ValueError as error:
        raise Refusal(
            400, "bad_request", f"the body is not strict JSON: {one_line(str(error), 300)}"
        ) from None
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        raise Refusal(422, "invalid_body", one_line(str(error), 300)) from None


def may_be_left_out(shape: object) -> bool:
    """Whether no body at all is an empty one: where it is nothing but arguments, and there may be none."""
    return get_origin(shape) is dict


_SMALL: Final = 65_536
"""Beyond this many bytes reading it would hold up everybody else."""


def _loads(data: bytes) -> Json:
    return _numbers(strictjson.loads(data, most=MOST_BODY_BYTES))


def _numbers(value: Json) -> Json:
    """Every number as the document has it: 3.0 is 3, and a great one is refused, also where it is no whole number."""
    match value:
        case float() if abs(value) > strictjson.MAX_INTEGER:
            raise ValueError(f"number {value!r} is beyond ±(2^53-1)")
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {name: _numbers(each) for name, each in value.items()}
        case list():
            return [_numbers(each) for each in value]
        case _:
            return value
