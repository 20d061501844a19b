"""That a process became the host, and that it is the host no more: on the record, so that people can see when things ran, and why not."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from metier.record.database import Database

HOST: Final = "agent:host"


def host_began(database: "Database", *, by: str, process: int) -> None:
    """Record that `process` is the host from now on.

    Raises:
        StateError: when it cannot be recorded.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        act = Act(principal=HOST, on_behalf_of=by)
        append(connection, "host_started", act, at=now(), code=f"process:{process}")


def host_over(database: "Database", *, by: str, process: int, why: str) -> None:
    """Record that it is the host no more. One that was killed cannot say so: then the next beginning follows on the last.

    Raises:
        StateError: when it cannot be recorded.
    """
    from metier.record.chain import Act, append, now

    with database.transaction() as connection:
        act = Act(principal=HOST, on_behalf_of=by)
        append(connection, "host_ended", act, at=now(), code=f"process:{process}", reasons=(why,))
