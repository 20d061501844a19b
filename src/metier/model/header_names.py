"""Names of the header lines that no skill may set: those by which a request is framed, routed or taken for another."""

from typing import Final

_OURS: Final = frozenset(
    {"host", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "connection", "keep-alive"}
    | {"http2-settings", "expect", "via", "forwarded", "x-real-ip", "true-client-ip", "client-ip"}
    | {"max-forwards", "x-original-url", "x-rewrite-url", "x-http-method", "x-http-method-override"}
    | {"x-method-override", "accept-encoding", "cookie2", "alt-used"}
)
_OUR_FAMILIES: Final = ("proxy-", "x-forwarded-", "x-original-", "sec-")


def is_reserved(name: str) -> bool:
    """Whether the line of this name is not for a skill to set."""
    return name.lower() in _OURS or name.lower().startswith(_OUR_FAMILIES)
