"""A command that has work under way ends it properly, also when it is told to go: what runs is ended, its outcome is recorded,
and nothing is left. Ctrl-C does that by itself; here the other two ways of saying it do the same."""

import signal
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, TypeVarTuple, Unpack

import anyio
import click
from anyio.abc import TaskStatus

_T = TypeVar("_T")
_Given = TypeVarTuple("_Given")
_NAMES: Final = ("SIGTERM", "SIGHUP")


def work(act: Callable[[Unpack[_Given]], Awaitable[_T]], *given: *_Given) -> _T:
    """Run `act` to its end. Told to go, the command stops what is under way and exits as the shell expects it.

    Raises:
        click.exceptions.Exit: with 128 and the number of the signal.
    """
    done: list[_T] = []
    told: list[int] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:

            async def listen(*, task_status: TaskStatus[None]) -> None:
                with anyio.open_signal_receiver(*_signals()) as received:
                    task_status.started()
                    async for number in received:
                        told.append(number)
                        tasks.cancel_scope.cancel()

            if _signals():
                await tasks.start(listen)
            done.append(await act(*given))
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main)
    except BaseExceptionGroup as group:
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from None
        raise
    if not done:
        click.echo("Stopped.", err=True)
        raise click.exceptions.Exit(128 + told[0])
    return done[0]


def _signals() -> tuple[signal.Signals, ...]:
    """Those that are there and that nobody told us to ignore, as `nohup` does."""
    known = (signal.Signals[name] for name in _NAMES if name in signal.Signals.__members__)
    return tuple(each for each in known if signal.getsignal(each) is not signal.SIG_IGN)
