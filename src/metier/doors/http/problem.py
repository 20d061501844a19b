"""Problems as RFC 9457 has them, with the stable codes. The words are ours; nothing of the machine is in them."""

from typing import Final, final

import msgspec
from starlette.responses import Response

from metier.errors import ConfigError, MetierError, NoHost, RecordError

TYPE: Final = "application/problem+json"


@final
class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was not done."""

    type: str = "about:blank"
    status: int
    title: str
    code: str
    """Stable: for programs."""
    detail: str = ""
    remedy: str = ""
    """What to do about it."""
    call_id: str = ""
    """The call that was made for it, where one was."""


TITLES: Final[dict[int, str]] = {
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    421: "Misdirected Request",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@final
class Refusal(Exception):
    """A request that is not done; caught in one place, which answers with the problem."""

    def __init__(
        self, status: int, code: str, detail: str, *, remedy: str, call_id: str = "", **headers: str
    ) -> None:
        """What was not done, why, and what to do about it: nobody is left without a way on."""
        super().__init__(detail)
        self.problem = Problem(
            status=status, title=TITLES[status], code=code, detail=detail, remedy=remedy, call_id=call_id
        )
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def problem(refusal: Refusal) -> Response:
    """The answer."""
    return Response(
        msgspec.json.encode(refusal.problem),
        status_code=refusal.problem.status,
        media_type=TYPE,
        headers=refusal.headers,
    )


def not_found(
    what: str = "there is nothing of that name here, or it is not for you",
    remedy: str = "The list that it would be in shows what there is for you",
) -> Refusal:
    """Also what is somebody else's: nobody learns by asking what there is."""
    return Refusal(404, "not_found", what, remedy=remedy)


def of_error(error: MetierError) -> Refusal:
    """What Metier itself could not do. Its words may name files of this machine, so they go to the log and not to the client."""
    if isinstance(error, NoHost):
        return Refusal(
            503,
            error.code,
            "it takes the process that runs what lives and waits, and there is none",
            remedy="`metier host` starts it",
        )
    about = {
        RecordError.code: "the record cannot be written or read, so nothing is done",
        ConfigError.code: "the configuration cannot be used, so nothing is done",
    }.get(error.code, "the state cannot be used at the moment")
    return Refusal(
        503,
        error.code,
        about,
        remedy="Any `metier` command on that machine says what is wrong",
        retry_after="5",
    )
