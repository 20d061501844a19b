"""One thing that can be asked over HTTP, as the OpenAPI document says it. What answers is made of the same, so neither says what the
other does not."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
By: TypeAlias = Literal["token", "session"]
JSON: Final = "application/json"


class Described(Struct, frozen=True, kw_only=True):
    """One method of one path."""

    method: Method
    path: str
    about: str
    """One sentence, for the document."""
    by: tuple[By, ...] = ("token", "session")
    """What lets somebody in here; empty where nobody has to be: what signs people in, and what tells everybody the same."""
    query: type[Struct] | None = None
    body: type | None = None
    answer: Any = None
    """The type of what is answered with 200."""
    kind: str = JSON
    """What kind of text is answered with 200."""
    answers: Mapping[int, Any] = {}
    """Types of other answers that are no problems; None where they are empty."""
    problems: tuple[int, ...] = ()
    """Which problems there are besides those that every request may meet."""
    shown: bool = False
    """A problem is shown as a page, where a browser was sent here."""
    headers: tuple[str, ...] = ()
    """Request headers that mean something here."""
    stream: bool = False
