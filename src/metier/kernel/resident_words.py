"""What a skill says when something goes wrong, as others may read it: without its secrets, and without what looks like one."""

from collections.abc import Iterator
from typing import Final, Protocol, final

from anyio import to_thread

from metier.errors import MetierError
from metier.kernel.operation import OperationError
from metier.model.digest import Json
from metier.model.skill import Skill
from metier.model.text import one_line
from metier.record.redact import masked
from metier.sandbox.secret import Mask

UNSAID: Final = "it is not shown: its secret settings cannot be read, so they could not be hidden in it"


class SettingsOfSkills(Protocol):
    """The settings of skills that live."""

    async def prepare(self, skill: Skill) -> None:
        """Write its defaults once, before it is enabled. Raises OperationError where they cannot be used."""
        ...

    async def secrets_of(self, skill: Skill) -> tuple[Json, ...]:
        """Its secret settings in the clear. Raises OperationError where they cannot be read."""
        ...


@final
class Words:
    """Of every skill that lives here."""

    def __init__(self, settings: SettingsOfSkills | None) -> None:
        self._settings = settings

    async def shown(self, skill: Skill | None, text: str, most: int) -> str:
        """`text` in one line of so many characters, without the secrets of `skill` where it has to do with one. What it was given as
        variables is hidden where it runs."""
        try:
            known = await self._settings.secrets_of(skill) if self._settings is not None and skill else ()
        except (OperationError, MetierError):
            return UNSAID
        return await to_thread.run_sync(_shown, text, known, most)


def _shown(text: str, secrets: tuple[Json, ...], most: int) -> str:
    mask = Mask()
    for each in _texts([*secrets]):
        mask.add(each)
    # The cut comes last: half a secret is not found, and is one all the same.
    return one_line(masked((mask.text(text),))[0], most)


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
