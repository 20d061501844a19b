"""The one way to a secret's value. Names go around in Metier; a value is read when a request is sent with it.

Nothing is kept: a file that is changed or closed off counts from the next request on. Why a value cannot be had is
for the operator and goes to the log; who asked learns only that it is not there.
"""

import logging
import os
import stat
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from metier.config.secret_references import Reference, read_references
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small

Reveal: TypeAlias = Callable[[str], str | None]

MOST_BYTES: Final = 65_536
_log: Final = logging.getLogger("metier.secrets")


class _Unavailable(Exception):
    """Why a value cannot be had, in words for the operator."""


@final
class Secrets:
    """Every secret the operator named, by reference."""

    def __init__(self, references: Mapping[str, str]) -> None:
        """Raises ConfigError for a reference that is neither `env://NAME` nor `file:///path`."""
        self._references = read_references(references)

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._references))})"

    @property
    def names(self) -> frozenset[str]:
        """What can be asked for."""
        return frozenset(self._references)

    def reveal(self, name: str) -> str | None:
        """The value of the secret, or None when there is none to be had."""
        reference = self._references.get(name)
        if reference is None:
            return None
        try:
            return _value(reference)
        except _Unavailable as problem:
            _log.warning("the secret %s cannot be used: %s", name, problem)
            return None

    def problem(self, name: str) -> str | None:
        """For the operator: why the secret cannot be used; None when it can."""
        reference = self._references.get(name)
        if reference is None:
            return f"there is no {name!r} in [secrets] of the configuration"
        try:
            _value(reference)
        except _Unavailable as problem:
            return str(problem)
        return None

    def only(self, names: frozenset[str]) -> Reveal:
        """A `reveal` that knows the granted `names` and no others."""
        return lambda name: self.reveal(name) if name in names else None


def _value(reference: Reference) -> str:
    value = _of_variable(reference.place) if reference.kind == "env" else _of_file(reference.place)
    if not value:
        raise _Unavailable(f"{reference.kind}://{reference.place} is empty")
    return value


def _of_variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise _Unavailable(f"the variable {name} is not set; set it before Metier is started")
    return value


def _of_file(path: str) -> str:
    found = read_small(path, most=MOST_BYTES)
    if isinstance(found, Diagnostic):
        raise _Unavailable(f"{path}: {found.message}")
    data, status = found
    if status.st_uid not in (0, os.geteuid()):
        raise _Unavailable(f"{path} belongs to user {status.st_uid}; it must be yours or root's")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise _Unavailable(f"{path} is open to others; run: chmod 600 '{path}'")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _Unavailable(f"{path} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")
