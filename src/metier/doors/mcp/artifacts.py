"""Files that calls made, as resources. Only the principal whose call made a file reads it, and only the bytes that were kept.

Which file is whose is known for as long as this process runs; the files themselves stay in the workspace.
"""

import hashlib
import os
from typing import Final, final
from urllib.parse import quote

from metier.doors.mcp.peer import Peer
from metier.doors.mcp.skill_files import NotRead
from metier.model.diagnostic import Diagnostic
from metier.model.outcome import Artifact
from metier.openfile import read_small

SCHEME: Final = "metier://"
MOST_BYTES: Final = 4 << 20
"""Of a file that is handed out here. A larger one is named, and lies in the workspace."""
_MOST: Final = 512
"""Files that are known of one principal, and principals of whom any are."""


@final
class Artifacts:
    """Belongs to one loop."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Artifact]] = {}

    def links(self, peer: Peer, made: tuple[Artifact, ...]) -> dict[str, Artifact]:
        """Where each of these can be read from now on, by whoever had it made."""
        found = {SCHEME + quote(artifact.path): artifact for artifact in made}
        if found:
            kept = self._known.pop(peer.principal.id, {}) | found
            self._known[peer.principal.id] = dict(list(kept.items())[-_MOST:])
            while len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        return found

    def of(self, peer: Peer) -> dict[str, Artifact]:
        """All of one principal's."""
        return dict(self._known.get(peer.principal.id, {}))

    def get(self, peer: Peer, uri: str) -> Artifact | None:
        """One of his; None for another's as for none at all."""
        return self._known.get(peer.principal.id, {}).get(uri)


def read(artifact: Artifact, workspace: str) -> bytes | NotRead:
    """The bytes that the call left; or why there are none: they are gone, are others by now, or are too many. Blocking."""
    if artifact.size > MOST_BYTES:
        return NotRead(
            f"{artifact.path} has {artifact.size:,} bytes, and at most {MOST_BYTES:,} are handed out here; it lies in the workspace"
        )
    found = read_small(os.path.join(workspace, *artifact.path.split("/")), most=MOST_BYTES)
    if isinstance(found, Diagnostic):
        gone = "is not there any more" if found.code == "missing" else "cannot be read any more"
        return NotRead(f"{artifact.path} {gone}; call again to have it made anew")
    if hashlib.sha256(found[0]).hexdigest() != artifact.sha256.removeprefix("sha256:"):
        return NotRead(f"{artifact.path} is not what the call left any more; call again to have it made anew")
    return found[0]
