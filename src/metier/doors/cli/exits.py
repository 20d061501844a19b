"""What the exit status of `metier` means. Documented in docs/cli.md; scripts rely on it."""

from typing import Final

OK: Final = 0
PROBLEM: Final = 1
"""It worked, and what was found is not in order: a broken skill, a failed call, a record that does not verify."""
USAGE: Final = 2
"""The command line cannot be understood."""
REFUSED: Final = 3
"""The gate said no; nothing ran."""
PENDING: Final = 4
"""Somebody has to decide first; nothing ran."""
SETUP: Final = 5
"""Configuration or state cannot be used."""
FAULT: Final = 70
"""A fault of Metier itself."""
