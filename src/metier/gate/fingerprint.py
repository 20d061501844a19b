"""The fingerprint of one exact act: what somebody approves, and what must still be so when it runs.

Equal acts have equal fingerprints in any order of keys, and 1 and 1.0 are one act, because arguments are taken as validate
returned them. It is keyed: once the key of a request is gone, nobody can guess from it what was asked.
"""

import hmac
import os
import stat
from collections.abc import Mapping
from typing import Final, cast, final

import msgspec
from msgspec import Struct

from metier.model.call import AuthorizedCall
from metier.model.digest import Json, canonical, digest_bytes
from metier.model.skill import Tool

_DOMAIN: Final = b"metier act 1\0"
_MOST: Final = 2**53 - 1


@final
class CwdIdentity(Struct, frozen=True, kw_only=True):
    """Which folder a working directory is, whatever its name leads to later."""

    path: str
    """Without links."""
    device: int
    inode: int

    @property
    def text(self) -> str:
        """All of it as one text."""
        return f"{self.path} (device {self.device}, inode {self.inode})"


def cwd_identity(path: str) -> CwdIdentity | str:
    """Which folder `path` is now, or why it is none. Blocking: it looks at the disk."""
    try:
        real = os.path.realpath(path, strict=True)
        found = os.stat(real, follow_symlinks=False)
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "its name cannot be one"
        return f"the working directory cannot be looked at: {said}"
    if not stat.S_ISDIR(found.st_mode):
        return "the working directory is no directory"
    return CwdIdentity(path=real, device=found.st_dev, inode=found.st_ino)


def fingerprint(
    authorized: AuthorizedCall,
    *,
    cwd: str,
    key: bytes,
    around: Mapping[str, Json] = {},
    asked_as: tuple[str, int] | None = None,
) -> str:
    """The fingerprint of this act under `key`; `cwd` is the text of its working directory's identity, `around` what the act
    depends on outside of itself, `asked_as` the id and attempt of the call somebody was asked about, where this one asks the
    same again."""
    valid = authorized.valid
    call, skill, found = valid.call, valid.skill, authorized.bytes
    id, attempt = asked_as or (call.id, call.attempt)
    act: dict[str, Json] = {
        "call": id,
        "attempt": attempt,
        "parent": call.parent,
        "principal": [call.principal.kind, call.principal.id, call.principal.on_behalf_of],
        "session": call.surroundings.session,
        "tool": [valid.tool.name, definition_digest(valid.tool)],
        "skill": [skill.name, skill.version, found.digest if found else ""] if skill else None,
        "arguments": valid.arguments,
        "confirmed": valid.confirmed,
        "cwd": _plain(cwd),
        "permissions": _plain(valid.permissions),
        "limits": _plain(valid.tool.limits),
        "environment": cast("list[Json]", sorted(valid.permissions.env)),
        "around": _plain(around),
        "policy": authorized.deciding,
    }
    return hmac.digest(key, _DOMAIN + canonical(_plain(act)), "sha256").hex()


def definition_digest(tool: Tool) -> str:
    """Over every field of a tool: with another description, schema or entry it is another tool."""
    return digest_bytes(_ordered(_plain(tool)))


def _plain(value: object) -> Json:
    """`value` as canonical JSON can hold it, with every field of every struct, also those left as they are."""
    if isinstance(value, Struct):
        fields = {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        return {type(value).__name__: fields}
    if isinstance(value, frozenset | set):
        return sorted((_plain(each) for each in cast("frozenset[object]", value)), key=_ordered)
    if isinstance(value, Mapping):
        return {
            _text(str(name)): _plain(item) for name, item in cast("Mapping[object, object]", value).items()
        }
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("list[object]", value)]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int) and abs(value) > _MOST:
        return {"integer": str(value)}
    return cast("Json", value if value is None else msgspec.to_builtins(value))


def _ordered(value: Json) -> bytes:
    """One byte string for one value. Only Metier itself compares these, so it need not be the one of RFC 8785."""
    return msgspec.json.encode(value, order="sorted")


def _text(text: str) -> str:
    """A path need not be text; what is none is spelled out behind a mark that no text of ours begins with."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "\0" + text.encode("utf-8", "surrogatepass").hex()
    return text
