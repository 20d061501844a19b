"""XBot packages that ship with Metier. They are known without any configuration, trusted by the release like everything that ships, and only
listed until somebody enables them. What they need of the network is done for them by a door of Metier's own."""

import os
from collections.abc import Iterator
from typing import Final, final

from msgspec import Struct

from metier.catalog.discover import Found
from metier.config.settings import Root, Settings
from metier.model.diagnostic import Diagnostic
from metier.openfile import read_small, signature_of

_FOLDERS: Final = {"@xpell/agent-skill-telegram": "xpell-agent-skill-telegram"}
SHIPPED: Final = frozenset(_FOLDERS)
_MOST_BYTES: Final = 65_536
_INIT: Final = "__init__.py"


@final
class Package(Struct, frozen=True, kw_only=True):
    """A package that is configured to be a skill."""

    found: Found
    root: Root
    off: str = ""
    """Why it is only listed; empty when it is enabled."""
    id: str = ""
    """What it is called in the configuration, also while nobody has run it to ask."""


def shipped(settings: Settings) -> Iterator[Package]:
    """Each of them."""
    enabled = settings.xbot.enabled or frozenset()
    for root in settings.roots:
        if root.kind != "bundled":
            continue
        for name, below in _FOLDERS.items():
            folder = f"{root.path}/{below}"
            if not os.path.isdir(folder):
                continue
            read = read_small(f"{folder}/{_INIT}", most=_MOST_BYTES, hard_links=True)
            found = (
                Found(folder, _INIT, None, None, read)
                if isinstance(read, Diagnostic)
                else Found(folder, _INIT, read[0], signature_of(read[1]))
            )
            start = f"`metier skills start {below}` lets it live"
            off = "" if name in enabled else f"{name!r} ships with Metier and is not enabled; {start}"
            yield Package(found=found, root=root, off=off, id=name)
