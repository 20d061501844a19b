"""How much one request may cost."""

from typing import Final, final

from msgspec import Struct

MOST_RETRIES: Final = 3
MOST_REDIRECTS: Final = 5
RETRIES: Final = 2
"""What a skill's request gets where trying again can do no harm: the method changes nothing and the fault may pass."""


@final
class EgressLimits(Struct, frozen=True, kw_only=True):
    """Each can be set lower; retries, redirects and time cannot be set higher than what is safe."""

    upload_bytes: int = 1_048_576
    download_bytes: int = 5_242_880
    """Of the body, counted on the wire and again after unpacking."""
    unpack_ratio: int = 100
    """How many bytes one byte on the wire may unpack to."""
    headers: int = 64
    header_bytes: int = 16_384
    """Of the request, names and values together. What a server may send is fixed."""
    connect_seconds: float = 5.0
    """For the lookup of a name, and again for the connection with its TLS handshake."""
    read_seconds: float = 15.0
    """How long the other side may be silent."""
    total_seconds: float = 30.0
    """For everything: redirects, retries and the pauses between them."""
    redirects: int = MOST_REDIRECTS
    retries: int = 0
    backoff_seconds: float = 0.25
    """The longest first pause before a retry; each further one may be twice as long."""

    def __post_init__(self) -> None:
        if not 0 <= self.retries <= MOST_RETRIES:
            raise ValueError(f"retries go from 0 to {MOST_RETRIES}, not {self.retries}")
        if not 0 <= self.redirects <= MOST_REDIRECTS:
            raise ValueError(f"redirects go from 0 to {MOST_REDIRECTS}, not {self.redirects}")
        if not 0 < self.total_seconds <= 300:
            raise ValueError(f"total_seconds lies above 0 and is at most 300, not {self.total_seconds}")
        if min(self.connect_seconds, self.read_seconds) <= 0 or self.backoff_seconds < 0:
            raise ValueError("times lie above 0")
        if min(self.upload_bytes, self.download_bytes, self.headers, self.header_bytes) < 0:
            raise ValueError("sizes are not negative")
        if self.unpack_ratio < 1:
            raise ValueError("unpack_ratio is at least 1")
