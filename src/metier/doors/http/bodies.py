"""What is sent with a request: strict JSON of one shape, or a problem that says what is wrong with it."""

from typing import Final, TypeVar, get_origin

import msgspec
from anyio import to_thread
from starlette.requests import Request

from metier.doors.http.guard import MOST_BODY_BYTES
from metier.doors.http.problem import Refusal
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.text import one_line

_SMALL: Final = 65_536
"""Beyond this many bytes reading it would hold up everybody else."""
_STRICT: Final = "No key twice, no number beyond ±(2^53-1), at most 32 levels, in UTF-8"
_SHAPE: Final = "What is asked for stands in /api/v1/openapi.json"
_T = TypeVar("_T")


async def read_body(request: Request, shape: type[_T]) -> _T:
    """The body as strict JSON of this shape.

    Raises:
        Refusal: when it is not.
    """
    data = await request.body()
    if not data and may_be_left_out(shape):
        data = b"{}"
    if len(data) < _SMALL:
        return decoded(data, shape)
    return await to_thread.run_sync(decoded, data, shape)


def decoded(data: bytes, shape: type[_T], *, repeated: bool = True) -> _T:
    """Likewise, of bytes that are there. `repeated`: what is wrong with it may repeat what was sent, which is no secret.

    Raises:
        Refusal: when it is not.
    """
    try:
        value = _numbers(strictjson.loads(data, most=MOST_BODY_BYTES))
    except ValueError as error:
        why = f": {one_line(str(error), 300)}" if repeated else ""
        raise Refusal(400, "bad_request", f"the body is not strict JSON{why}", remedy=_STRICT) from None
    try:
        return msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        why = one_line(str(error), 300) if repeated else "the body is not of the form that is asked for"
        raise Refusal(422, "invalid_body", why, remedy=_SHAPE) from None


def may_be_left_out(shape: object) -> bool:
    """Whether no body at all is an empty one: where it is nothing but arguments, and there may be none."""
    return get_origin(shape) is dict


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
