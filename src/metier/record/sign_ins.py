"""That a person signed in, on the record."""

from typing import TYPE_CHECKING

from metier.record.chain import Act, append, now

if TYPE_CHECKING:
    from metier.record.database import Database


def note_sign_in(database: "Database", principal: str, *, session: str, how: str) -> None:
    """Write down who signed in, by what (`link`, `password` or `oidc`), and the session that began so.

    Raises:
        StateError: when it cannot be recorded; then nobody is signed in.
    """
    with database.transaction() as connection:
        append(connection, "signed_in", Act(principal=principal, session=session), at=now(), code=how)
