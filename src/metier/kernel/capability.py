"""The kernel's own capability: what shows that a privileged operation was asked for by way of the gate, and not past it.

It is made anew at every start and kept in memory, so one of an earlier start is void. It is compared in constant time, and there
is no way to print it.
"""

import hmac
import secrets
from typing import Final, final

_BYTES: Final = 32


@final
class Capability:
    """Of one start. Whoever holds the object can show it; nobody can read it off."""

    __slots__ = ("_secret",)

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(_BYTES)

    def __repr__(self) -> str:
        return "Capability(…)"

    def __reduce__(self) -> str:
        raise TypeError("a capability is not written down")

    def admits(self, shown: "Capability | None") -> bool:
        """Whether `shown` is the capability of this start."""
        return isinstance(shown, Capability) and hmac.compare_digest(self._secret, shown._secret)
