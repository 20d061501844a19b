"""The files of a skill, from the snapshot of its bytes: never from the folder, where they may be others a moment later."""

import time
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from metier.catalog.bundle import Snapshot
from metier.catalog.hold import hold
from metier.catalog.listed import Listed
from metier.doors.http.endpoint import Asking
from metier.errors import BundleError

MOST_BYTES: Final = 262_144
"""Of a file that is shown."""


@final
class FileText(Struct, frozen=True, kw_only=True):
    """One file as a person reads it."""

    path: str
    size: int = 0
    sha256: str = ""
    text: str = ""
    problem: str = ""
    """Why its text is not shown; empty where it is."""


def digest_now(asking: Asking, listed: Listed) -> str:
    """Of the bytes that lie there now; empty where there are none to speak of. Blocking."""
    state = asking.serving.engine.state
    held = hold(listed, trust=state.trust, bundles=state.bundles, now_ns=time.time_ns())
    return held.bytes.digest if held.bytes is not None else ""


def kept(asking: Asking, digest: str) -> Snapshot | None:
    """The snapshot of these bytes, if somebody had it taken: a call, or a review. Blocking."""
    try:
        return asking.serving.engine.state.bundles.open(digest) if digest else None
    except BundleError:
        return None  # what is kept under that digest is something else, and is shown to nobody


def file_text(snapshot: Snapshot | None, path: str) -> FileText | None:
    """One file of it as text; None where it has no such file. Blocking."""
    found = (
        next((each for each in snapshot.files if each.path == path), None) if snapshot is not None else None
    )
    if snapshot is None or found is None:
        return None
    about = FileText(path=path, size=found.size, sha256=found.sha256)
    if found.size > MOST_BYTES:
        return replace(about, problem=f"it is too large to be shown here: at most {MOST_BYTES:,} bytes are")
    try:
        data = snapshot.read(path)
    except BundleError:
        return replace(
            about, problem="the stored copy of it does not match its digest, so it is shown to nobody"
        )
    try:
        text = (data or b"").decode("utf-8-sig")
    except UnicodeDecodeError:
        return replace(about, problem="it is no text")
    return replace(about, problem="it is no text") if "\0" in text else replace(about, text=text)
