"""Who reads standard output may stop at any moment (`metier … | head`). That is no fault, and changes no status."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def to_its_reader() -> Generator[None]:
    """What stands in here is printed as long as somebody reads."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain again while closing the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
