"""What a scripted model says, turn by turn."""

from collections.abc import Sequence
from typing import TypeAlias, final

from msgspec import Struct, json

from metier.model.digest import Json


@final
class ToolCall(Struct, frozen=True):
    """The model calls a tool."""

    name: str
    arguments: dict[str, Json] | str = {}
    """An object; or text that is sent as it stands, for a model that writes bad JSON."""

    @property
    def text(self) -> str:
        """The arguments as the APIs that carry text send them."""
        return self.arguments if isinstance(self.arguments, str) else json.encode(self.arguments).decode()


Turn: TypeAlias = str | ToolCall | Sequence[ToolCall]
"""A final text, one call, or several calls at once."""


def calls_of(turn: Turn) -> Sequence[ToolCall]:
    """The calls of a turn; none when it is a text."""
    if isinstance(turn, str):
        return ()
    return (turn,) if isinstance(turn, ToolCall) else turn
