"""Where the operator keeps a secret: `env://NAME`, `file:///path`, `sealed://NAME` or `keyring://service/name`. A reference is not
the secret.

Whoever writes the secret itself into the file by mistake is told so without seeing it repeated.
"""

import re
from collections.abc import Mapping
from typing import Final, Literal, final

from msgspec import Struct

from metier.errors import ConfigError

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}", re.ASCII)
"""Of a secret. It is the name of a file too, so there is no slash in it."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}")
_KEYRING: Final = re.compile(r"[A-Za-z0-9_.@+-]{1,128}/[A-Za-z0-9_.@+-]{1,128}", re.ASCII)
_REMEDY: Final = (
    'Write NAME = "env://VARIABLE", "file:///path/to/file", "sealed://NAME" (after `metier secrets set NAME`) or '
    '"keyring://service/name", never the secret itself'
)


@final
class Reference(Struct, frozen=True, kw_only=True):
    """One place where a secret lies."""

    kind: Literal["env", "file", "sealed", "keyring"]
    place: str
    """The variable, the absolute path, the name in the store, or `service/name`."""


def read_references(written: Mapping[str, str], *, where: str = "[secrets]") -> dict[str, Reference]:
    """Every reference by the secret's name.

    Raises:
        ConfigError: for a name or a reference of another form. It says which one, never what was written there.
    """
    return {name: _read(name, text, where) for name, text in written.items()}


def _read(name: str, text: str, where: str) -> Reference:
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{where}: {name[:60]!r} is not a name for a secret",
            remedy="Use letters, digits, dots, hyphens and underscores, a letter first",
        )
    scheme, mark, place = text.partition("://")
    match scheme if mark else "":
        case "env":
            if not _VARIABLE.fullmatch(place):
                raise _refused(name, where, "does not name an environment variable after env://")
            return Reference(kind="env", place=place)
        case "file":
            parts = place.split("/")
            plain = place.isprintable() and not {"", ".", ".."} & set(parts[1:])
            if parts[0] or len(parts) < 2 or not plain:
                raise _refused(name, where, "does not name an absolute path without . and .. after file://")
            return Reference(kind="file", place=place)
        case "sealed":
            if not NAME.fullmatch(place):
                raise _refused(name, where, "does not name a secret of `metier secrets list` after sealed://")
            return Reference(kind="sealed", place=place)
        case "keyring":
            if not _KEYRING.fullmatch(place):
                raise _refused(name, where, "does not name a service and a name after keyring://")
            return Reference(kind="keyring", place=place)
        case _:
            raise _refused(name, where, "is none of env://, file://, sealed:// and keyring://")


def _refused(name: str, where: str, what: str) -> ConfigError:
    return ConfigError(f"{where}: the reference of the secret {name!r} {what}", remedy=_REMEDY)
