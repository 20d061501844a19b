"""The settings of skills where they are kept, plain ones in kernel.db and secret ones sealed: changed together or not at all.

Everything here blocks; call it in a thread. What is to be written is worked out while nobody waits for it.
"""

import logging
from collections.abc import Callable
from typing import Final, final

from metier.errors import MetierError
from metier.host.sealed import Sealed
from metier.kernel.operation import OperationError
from metier.kernel.settings_change import Values
from metier.kernel.settings_rows import BUSY, UNREADABLE, Row, keep, row_of, stored
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.text import one_line

_TRIES: Final = 20
"""To change what others change at the same time."""
_log: Final = logging.getLogger("metier.settings")


@final
class Kept:
    """Of every skill."""

    def __init__(self, store: Store, sealed: Sealed) -> None:
        self._store = store
        self._sealed = sealed

    def row(self, name: str) -> Row | None:
        """The plain settings of a skill, as they lie."""
        with self._store.reading() as connection:
            return row_of(connection, name)

    def secrets(self, name: str) -> dict[str, Json]:
        """Its secret ones, each by its dotted path.

        Raises:
            OperationError: when they cannot be opened.
        """
        try:
            return self._sealed.of_skill(name)
        except MetierError as error:
            _log.warning("the secret settings of %s cannot be opened: %s", one_line(name, 80), error)
            raise OperationError(
                UNREADABLE,
                f"the secret settings of {one_line(name, 80)!r} cannot be opened; Metier's log says why. `metier settings reset` "
                "forgets them",
            ) from None

    def begin_anew(self, name: str, plain: dict[str, Json], by: str) -> None:
        """Keep these and no secret, whatever there was and whether it can be read or not."""
        with self._store.writing() as connection:
            keep(connection, name, plain, by)
            self._sealed.set_of_skill(name, {})

    def replace(
        self,
        name: str,
        by: str,
        made: Callable[[dict[str, Json] | None, dict[str, Json]], Values | None],
    ) -> None:
        """Put in the place of what is stored what `made` makes of it; None leaves it as it is.

        It is worked out without a lock, and written if nothing was written meanwhile; else it is worked out again.

        Raises:
            OperationError: when what is stored cannot be read, or others change it all the time.
        """
        for _ in range(_TRIES):
            row, before = self.row(name), self.secrets(name)
            values = made(stored(row, name), before)
            if values is None or self._exchanged(name, by, row, before, values):
                return
        raise OperationError(
            BUSY,
            f"somebody else keeps changing the settings of {one_line(name, 80)!r}; try again in a moment",
        )

    def _exchanged(
        self, name: str, by: str, row: Row | None, before: dict[str, Json], values: Values
    ) -> bool:
        """Whether nothing was written since `row` and `before` were read, so that these could be."""
        written_over = False
        try:
            with self._store.writing() as connection:
                if row_of(connection, name) != row or self.secrets(name) != before:
                    return False
                keep(connection, name, values.plain, by)
                after = values.secret
                if after != before:  # last: what goes with it is only not yet committed
                    self._sealed.set_of_skill(name, after)
                    written_over = True
        except MetierError:
            if written_over:  # and what goes with them could not be
                self._sealed.set_of_skill(name, before)
            raise
        return True
