"""`[xbot]`: which XBot packages are skills, and where they may lie. The same can stand in a project's `agent.config.json`, in
XBot's own words; that is the word of a stranger, so what it names waits to be trusted like everything of a project's.

Left empty, nothing is looked for anywhere.
"""

from typing import Any, Final, cast, final

from msgspec import Struct, ValidationError, convert

from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small

FILE: Final = "agent.config.json"
_MOST_BYTES: Final = 1_048_576


@final
class ResolveSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[xbot.resolve]`: where packages are looked for, beside installed Python distributions."""

    node_modules: bool = False
    """Whether in the project's own."""
    local_paths: tuple[str, ...] = ()
    """Folders of packages, each inside the project."""


@final
class XbotSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[xbot]`: which packages are skills."""

    allow: frozenset[str] | None = None
    """The ids of those that may be loaded; absent or empty means none."""
    enabled: frozenset[str] | None = None
    """Of these, the ones that are."""
    resolve: ResolveSettings = ResolveSettings()


@final
class _Foreign(Struct, frozen=True, kw_only=True):
    skills: XbotSettings = XbotSettings()


def read(path: str) -> tuple[XbotSettings, tuple[str, ...]]:
    """What a project's `agent.config.json` says; one that cannot be understood allows nothing, and says so."""
    found = read_small(path, most=_MOST_BYTES)
    if isinstance(found, Diagnostic):
        return (XbotSettings(), ()) if found.code == "missing" else _nothing(path, found.message)
    try:
        tree = cast("dict[str, Any]", strictjson.loads(found[0]))
        return convert(tree, _Foreign).skills, ()
    except (ValueError, ValidationError) as error:
        return _nothing(path, str(error))


def both(own: XbotSettings, theirs: XbotSettings) -> XbotSettings:
    """The operator's word and the project's together: neither allows what the other does not."""
    return XbotSettings(
        allow=_both(own.allow, theirs.allow),
        enabled=_both(own.enabled, theirs.enabled),
        resolve=ResolveSettings(
            node_modules=own.resolve.node_modules or theirs.resolve.node_modules,
            local_paths=tuple(dict.fromkeys((*own.resolve.local_paths, *theirs.resolve.local_paths))),
        ),
    )


def _both(own: frozenset[str] | None, theirs: frozenset[str] | None) -> frozenset[str] | None:
    if own is None or theirs is None:
        return own if theirs is None else theirs
    return own & theirs


def _nothing(path: str, why: str) -> tuple[XbotSettings, tuple[str, ...]]:
    none: frozenset[str] = frozenset()
    warning = f"{path}: {why}; no XBot skill is loaded until that is mended"
    return XbotSettings(allow=none, enabled=none), (warning,)
