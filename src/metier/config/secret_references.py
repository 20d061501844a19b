"""Where the operator keeps a secret: `env://NAME` or `file:///path`. A reference is not the secret.

Whoever writes the secret itself into the file by mistake is told so without seeing it repeated.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, final

from msgspec import Struct

from metier.errors import ConfigError

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_REMEDY: Final = 'Write NAME = "env://VARIABLE" or NAME = "file:///path/to/file", never the secret itself'


@final
class Reference(Struct, frozen=True, kw_only=True):
    """One place where a secret lies."""

    kind: Literal["env", "file"]
    place: str
    """The variable, or the absolute path."""


def read_references(written: Mapping[str, str], *, where: str = "[secrets]") -> dict[str, Reference]:
    """Every reference by the secret's name.

    Raises:
        ConfigError: for a name or a reference of another form. It says which one, never what was written there.
    """
    return {name: _read(name, text, where) for name, text in written.items()}


def _read(name: str, text: str, where: str) -> Reference:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name[:60]!r} is not a name for a secret",
            remedy="Use letters, digits, dots, hyphens and underscores, a letter first",
        )
    scheme, mark, place = text.partition("://")
    if mark and scheme == "env":
        if not _VARIABLE.fullmatch(place):
            raise _refused(name, where, "does not name an environment variable after env://")
        return Reference(kind="env", place=place)
    if mark and scheme == "file":
        parts = place.split("/")
        plain = place.isprintable() and not {"", ".", ".."} & set(parts[1:])
        if parts[0] or len(parts) < 2 or not plain:
            raise _refused(name, where, "does not name an absolute path without . and .. after file://")
        return Reference(kind="file", place=place)
    raise _refused(name, where, "is neither env:// nor file://")


def _refused(name: str, where: str, what: str) -> ConfigError:
    return ConfigError(f"{where}: the reference of the secret {name!r} {what}", remedy=_REMEDY)
