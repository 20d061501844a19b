"""An MCP server as we talk to it, whatever the way: what is asked, and how that can end."""

from typing import Final, Literal, Protocol, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json
from metier.model.job import Event


@final
class Trouble(Struct, frozen=True, kw_only=True):
    """Why nothing came back that can be used."""

    kind: Literal["gone", "late", "busy", "error", "bad", "denied", "violation"]
    """`gone`: the server is over. `late`: it did not answer in time. `error`: it said so itself. `bad`: it does not keep to the
    protocol. `denied`, `violation`: it, or who named it, reached for what it was not given."""
    message: str
    code: int = 0
    """Of an error that the server told."""
    event: Event | None = None


Said: TypeAlias = dict[str, Json] | Trouble


def unusable(why: str) -> Trouble:
    """It answered, and nothing of that is believed."""
    return Trouble(kind="bad", message=f"the server's answer cannot be used: {why}")


class Peer(Protocol):
    """One server. Nothing here raises but for cancellation, which reaches the server too."""

    async def ask(self, method: str, params: dict[str, Json], seconds: float) -> Said:
        """What it answers within so many seconds."""
        ...

    async def tell(self, method: str, params: dict[str, Json]) -> None:
        """Tell it something; whether it hears is not known."""
        ...


LIST_CHANGED: Final = "notifications/tools/list_changed"
