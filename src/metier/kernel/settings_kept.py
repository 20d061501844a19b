"""The settings of skills where they are kept, plain ones in kernel.db and secret ones sealed: changed together or not at all.

They lie in two places, and a process may end between the two. So a change of both is whole once the sealed file is written: the plain
ones are sealed beside the secret ones, and count for as long as the row in kernel.db is still the one from before. Nobody ever sees
the secret of tomorrow with the address of today.

Everything here blocks; call it in a thread. What is to be written is worked out while nobody waits for it.
"""

import hashlib
import logging
from collections.abc import Callable
from contextlib import suppress
from hmac import compare_digest
from typing import Final, final

import msgspec
from msgspec import Struct

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
class Found(Struct, frozen=True, kw_only=True):
    """What is kept for one skill, as it lies in both places."""

    row: Row | None
    secret: dict[str, Json]
    """By dotted path."""
    beside: Json

    def plain(self, name: str) -> dict[str, Json] | None:
        """The plain settings that go with the secret ones; None where nothing was ever stored.

        Raises:
            OperationError: when what is stored is no settings.
        """
        return self.ahead if self.ahead is not None else stored(self.row, name)

    @property
    def ahead(self) -> dict[str, Json] | None:
        """Those that were sealed and did not come to their row; None where there are none."""
        match self.beside:
            case {"after": str(after), "plain": dict(plain)} if after == _mark(self.row):
                return plain
            case _:
                return None


@final
class Kept:
    """Of every skill."""

    def __init__(self, store: Store, sealed: Sealed) -> None:
        self._store = store
        self._sealed = sealed
        self.written: dict[str, float] = {}
        """When this process last wrote those of a skill: the moment that stands in its row then."""

    def row(self, name: str) -> Row | None:
        """The plain settings of a skill, as they lie."""
        with self._store.reading() as connection:
            return row_of(connection, name)

    def secrets(self, name: str) -> dict[str, Json]:
        """Its secret ones, each by its dotted path.

        Raises:
            OperationError: when they cannot be opened.
        """
        return self._opened(name)[0]

    def found(self, name: str) -> Found:
        """Both.

        Raises:
            OperationError: when the secret ones cannot be opened.
        """
        row = self.row(name)
        secret, beside = self._opened(name)
        return Found(row=row, secret=secret, beside=beside)

    def begin_anew(self, name: str, plain: dict[str, Json], by: str) -> None:
        """Keep these and no secret, whatever there was and whether it can be read or not. The secrets go first: who is ended in
        between has forgotten too much rather than too little."""
        with self._store.writing() as connection:
            self.written[name] = keep(connection, name, plain, by)
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
            found = self.found(name)
            values = made(found.plain(name), found.secret)
            if values is None and found.ahead is not None:
                values = Values(plain=found.ahead, secret=found.secret)
            if values is None or self._exchanged(name, by, found, values):
                return
        raise OperationError(
            BUSY,
            f"somebody else keeps changing the settings of {one_line(name, 80)!r}; try again in a moment",
        )

    def _exchanged(self, name: str, by: str, found: Found, values: Values) -> bool:
        """Whether nothing was written since `found` was read, so that these could be."""
        written_over = False
        try:
            with self._store.writing() as connection:
                if row_of(connection, name) != found.row:
                    return False
                if self._opened(name) != (found.secret, found.beside):
                    return False
                self.written[name] = keep(connection, name, values.plain, by)
                if not _same(
                    values.secret, found.secret
                ):  # last: what goes with it is only not yet committed
                    written_over = True
                    beside: Json = {"after": _mark(found.row), "plain": values.plain}
                    self._sealed.set_of_skill(name, values.secret, beside)
        except BaseException:
            if written_over:  # and what goes with them could not be
                with suppress(MetierError):  # the two belong together either way
                    self._sealed.set_of_skill(name, found.secret, found.beside)
            raise
        if written_over and not values.secret:
            self._sealed.set_of_skill(name, {})
        return True

    def _opened(self, name: str) -> tuple[dict[str, Json], Json]:
        try:
            return self._sealed.of_skill_with(name)
        except MetierError as error:
            _log.warning("the secret settings of %s cannot be opened: %s", one_line(name, 80), error)
            raise OperationError(
                UNREADABLE,
                f"the secret settings of {one_line(name, 80)!r} cannot be opened; Metier's log says why. `metier settings reset` "
                "forgets them",
            ) from None


def _mark(row: Row | None) -> str:
    """By what a row is known again."""
    return hashlib.sha256(repr(row).encode("utf-8", "replace")).hexdigest()


def _same(one: dict[str, Json], other: dict[str, Json]) -> bool:
    """Compared whole, so that how long it takes says nothing of what they hold."""
    spelled = (msgspec.json.encode(each, order="deterministic") for each in (one, other))
    return compare_digest(*spelled)
