"""How a request to the outside ended. All of it is safe to hand to the skill: secrets are masked already."""

from typing import Literal, TypeAlias, final

from msgspec import Struct

FailedCode: TypeAlias = Literal[
    "invalid_url",
    "invalid_request",
    "secret_unavailable",
    "lookup_failed",
    "connect_failed",
    "tls_failed",
    "timed_out",
    "disconnected",
    "protocol_error",
    "too_large",
    "unpacks_too_far",
    "unknown_coding",
    "too_many_redirects",
    "redirect_refused",
]


@final
class Timing(Struct, frozen=True, kw_only=True):
    """Where the time went, in seconds."""

    lookup: float = 0.0
    """Spent on names, over all hops."""
    first_byte: float = 0.0
    """From the sending of the last hop to its response head."""
    total: float = 0.0


@final
class Answer(Struct, frozen=True, kw_only=True, tag_field="reply", tag="answer"):
    """A server answered. A status of 400 and above is an answer too."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in the order received."""
    body: bytes
    url: str
    """What was answered in the end, after redirects."""
    truncated: bool = False
    """The body was longer than the limit; only its beginning is here."""
    redirects: int = 0
    attempts: int = 1
    """How often the last hop was sent."""
    timing: Timing = Timing()


@final
class Denied(Struct, frozen=True, kw_only=True, tag_field="reply", tag="denied"):
    """Nothing was sent: the place is public, but nobody granted it. Counted, no violation."""

    origin: str
    message: str
    cause: Literal["request", "redirect"]
    """Who named the place: the skill, or a server it was allowed to ask."""


@final
class Violation(Struct, frozen=True, kw_only=True, tag_field="reply", tag="violation"):
    """Nothing was sent to it: the place is private, or something else no skill may ever reach."""

    host: str
    address: str
    message: str
    cause: Literal["request", "lookup", "redirect", "answer"]
    """Who named the place: the skill, the answer of a name server, or a server it was allowed to ask, by a redirect that
    we followed or, as far as anybody can tell, by something else it answered earlier."""


@final
class Failed(Struct, frozen=True, kw_only=True, tag_field="reply", tag="failed"):
    """No answer came, or none that may be handed on."""

    code: FailedCode
    message: str


Reply: TypeAlias = Answer | Denied | Violation | Failed
