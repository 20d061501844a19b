"""Lines that somebody types at the terminal while a command has work under way.

No thread waits for them: whoever stops the command, with Ctrl-C or otherwise, has said the last thing that counts.
"""

import os
import sys
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
        click.echo(asked, nl=False, err=True)
        descriptor = sys.stdin.fileno()
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
