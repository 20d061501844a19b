"""The one way to a secret's value. Names go around in Metier; a value is read when a request is sent with it.

Nothing is kept: a secret that is changed, removed or closed off counts from the next request on. Why a value cannot be had is
for the operator and goes to the log; who asked learns only that it is not there.
"""

import logging
import os
import stat
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from metier.config.secret_references import Reference, read_references
from metier.errors import MetierError
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small

Reveal: TypeAlias = Callable[[str], str | None]

MOST_BYTES: Final = 65_536
OWN_SETTING: Final = "setting:"
"""Before the path of a skill's own secret setting, where a request names a secret."""
_log: Final = logging.getLogger("metier.secrets")


class _Unavailable(Exception):
    """Why a value cannot be had, in words for the operator."""


@final
class Secrets:
    """Every secret the operator named, by reference, and those he had kept under their names."""

    def __init__(self, references: Mapping[str, str], home: str = "") -> None:
        """`home` is the state folder with the store of secrets; without it there is none.

        Raises:
            ConfigError: for a reference that is no reference.
        """
        self._references = read_references(references)
        self._home = home

    def __repr__(self) -> str:
        return f"Secrets({', '.join(sorted(self._references))})"

    @property
    def names(self) -> frozenset[str]:
        """What can be asked for."""
        return frozenset((*self._references, *self._kept()))

    def reveal(self, name: str) -> str | None:
        """The value of the secret, or None when there is none to be had."""
        reference = self._reference(name)
        if reference is None:
            return None
        try:
            return self._value(reference)
        except _Unavailable as problem:
            _log.warning("the secret %s cannot be used: %s", name, problem)
            return None

    def problem(self, name: str) -> str | None:
        """For the operator: why the secret cannot be used; None when it can."""
        reference = self._reference(name)
        if reference is None:
            return f"there is no {name!r} in [secrets] of the configuration, and none was set with `metier secrets set`"
        try:
            self._value(reference)
        except _Unavailable as problem:
            return str(problem)
        return None

    def only(self, names: frozenset[str]) -> Reveal:
        """A `reveal` that knows the granted `names` and no others."""
        return lambda name: self.reveal(name) if name in names else None

    def _reference(self, name: str) -> Reference | None:
        """What the operator wrote counts; what was kept under that very name needs no reference."""
        found = self._references.get(name)
        return Reference(kind="sealed", place=name) if found is None and name in self._kept() else found

    def _kept(self) -> list[str]:
        if not self._home:
            return []
        from metier.host.sealed import Sealed

        try:
            return Sealed(self._home).names()
        except MetierError as error:
            _log.warning("the store of secrets cannot be looked into: %s", error)
            return []

    def _value(self, reference: Reference) -> str:
        match reference.kind:
            case "env":
                value = _of_variable(reference.place)
            case "file":
                value = _of_file(reference.place)
            case "sealed":
                value = self._of_store(reference.place)
            case "keyring":
                value = _of_keyring(reference.place)
        if not value:
            raise _Unavailable(f"{reference.kind}://{reference.place} is empty")
        return value

    def _of_store(self, name: str) -> str:
        from metier.host.sealed import Sealed

        try:
            value = Sealed(self._home).read(name) if self._home else None
        except MetierError as error:
            raise _Unavailable(str(error)) from None
        if value is None:
            raise _Unavailable(f"nothing was set under that name; run: metier secrets set {name}")
        return value


def own_settings(home: str, skill: str) -> Reveal:
    """A `reveal` that knows the secret settings of one skill, each as `setting:PATH`, and nothing else."""

    def reveal(name: str) -> str | None:
        if not skill or not name.startswith(OWN_SETTING):
            return None
        from metier.host.sealed import Sealed

        try:
            value = Sealed(home).of_skill(skill).get(name.removeprefix(OWN_SETTING))
        except MetierError as error:
            _log.warning("the secret settings of %s cannot be used: %s", skill, error)
            return None
        return value if isinstance(value, str) and value else None

    return reveal


def names_of_own_settings(home: str, skill: str) -> frozenset[str]:
    """What `own_settings` reveals now, for who has to mask it."""
    from metier.host.sealed import Sealed

    try:
        return (
            frozenset(OWN_SETTING + path for path in Sealed(home).of_skill(skill)) if skill else frozenset()
        )
    except MetierError:
        return frozenset()


def _of_keyring(place: str) -> str:
    from metier.host.keyring import read_keyring

    try:
        return read_keyring(place)
    except MetierError as error:
        raise _Unavailable(str(error)) from None


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
