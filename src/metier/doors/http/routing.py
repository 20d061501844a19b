"""A path of this server. Every method comes to it, and one that it has not is refused in our own words, like everything else."""

from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from metier.doors.http.problem import Refusal, problem

Answering: TypeAlias = Callable[[Request], Awaitable[Response]]
READING: Final = ("GET", "HEAD")
"""What only shows something takes these."""


def every_method(path: str, does: Answering) -> Route:
    """Whatever is asked for at this path, by any method: `does` says which there are."""
    made = Route(path, does)
    made.methods = set()  # else starlette answers, in its own words, before anybody knows who asks
    return made


def only(path: str, does: Answering, methods: Collection[str] = READING) -> Route:
    """What is asked for by one of these methods; others are told which there are."""

    async def asked(request: Request) -> Response:
        if request.method not in methods:
            return problem(no_such_method(methods))
        return await does(request)

    return every_method(path, asked)


def no_such_method(methods: Collection[str]) -> Refusal:
    """The path is there, and not for this."""
    allowed = ", ".join(sorted(methods))
    return Refusal(
        405, "method_not_allowed", f"here there is {allowed}", remedy="Use one of these", allow=allowed
    )
