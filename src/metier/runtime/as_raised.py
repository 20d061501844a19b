"""What goes wrong in a task group comes out of it in a group, also where it is one thing. Whoever catches that by its kind wants the
thing itself."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast


@contextmanager
def as_raised() -> Generator[None]:
    """One thing that was raised within is raised as it was; several stay a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise the_one(group) from None


def the_one(error: BaseException) -> BaseException:
    """What is in it, where that is one thing."""
    within = cast("tuple[BaseException, ...]", getattr(error, "exceptions", ()))
    return the_one(within[0]) if len(within) == 1 else error
