"""Lines that somebody types at the terminal while a command has work under way.

No thread waits for them: whoever stops the command, with Ctrl-C or otherwise, has said the last thing that counts. What was
typed before a question was there is no answer to it.
"""

import os
import sys
from contextlib import suppress
from typing import Final, final

import anyio
import click

_MOST: Final = 65_536


@final
class Typed:
    """The terminal as a place to ask."""

    def __init__(self) -> None:
        self._rest = b""

    async def line(self, asked: str) -> str | None:
        """What was typed after `asked`, without its end; None when nothing more will be (Ctrl-D)."""
        descriptor = sys.stdin.fileno()
        self._forget(descriptor)
        click.echo(asked, nl=False, err=True)
        while b"\n" not in self._rest and len(self._rest) < _MOST:
            try:
                await anyio.wait_readable(descriptor)
                more = os.read(descriptor, 4096)
            except OSError:  # it was closed, or is of a kind that cannot be waited for
                more = b""
            if not more:
                self._rest = b""
                click.echo(err=True)
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode("utf-8", "backslashreplace").strip()

    def _forget(self, descriptor: int) -> None:
        import termios

        self._rest = b""
        with suppress(termios.error):  # no terminal
            termios.tcflush(descriptor, termios.TCIFLUSH)
