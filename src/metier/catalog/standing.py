"""Is a skill trusted as it lies there now?

Bundled skills are trusted by the release. In a root the operator vouches for, a skill is bound to its bytes when it is
first used, unless its own file says that it waits for a person; elsewhere it waits until it is trusted by name. Once bound,
other bytes hold it back until it is trusted again.
A name that was disabled stays so, whatever is trusted under it, and bytes that were, whatever name they have.
"""

import time
from typing import Final, final

from msgspec import Struct

from metier.config.settings import Root
from metier.errors import BundleError
from metier.model.skill import Status
from metier.openfile import Signature
from metier.record.trust import Trusts

NOT_TRUSTED: Final = "not trusted yet; look at it with `metier skills info`, then run `metier skills trust`"
CHANGED: Final = "not the bytes that were trusted; see what changed with `metier skills info`, then run `metier skills trust`"
DISABLED: Final = "disabled: "
REVOKED: Final = "its trust was taken back; `metier skills trust` gives it again"


@final
class Standing(Struct, frozen=True):
    """What trust says about one skill."""

    status: Status
    why: str = ""
    digest: str = ""


UNBOUND: Final = Standing("active")
"""In a root the operator vouches for, and never used: its bytes are taken at first use."""


def standing(
    *,
    root: Root,
    folder: str,
    name: str,
    signature: Signature | None,
    trusts: Trusts,
    bound: frozenset[str],
    thorough: bool = False,
) -> Standing:
    """The standing of the skill `name` in `folder`, whose manifest has `signature`.

    Args:
        bound: every name in `trusts` that is bound to some bytes.
        thorough: look at every file, not only at the manifest.
    """
    if (why := trusts.disabled.get(name)) is not None:
        return Standing("disabled", f"{DISABLED}{why}")
    seen = trusts.seen.get(folder)
    digest = ""
    if thorough or name in bound:
        if seen is not None and signature is not None and seen.manifest_signature == text_of(signature):
            digest = seen.digest
        else:
            from metier.catalog.bundle import measure  # hashing is needed only where something moved

            try:
                digest = measure(folder, now_ns=time.time_ns(), hard_links=root.hard_links).digest
            except BundleError as error:
                return Standing("broken", str(error))
    if (other := trusts.disabled_bytes.get(digest)) is not None:
        return Standing("disabled", same_bytes(other, trusts), digest)
    if root.kind == "bundled":
        return UNBOUND
    if name in trusts.revoked:
        return Standing("pending_approval", REVOKED)
    if name in bound:
        if (name, digest) in trusts.trusted:
            return Standing("active", digest=digest)
        return Standing("pending_approval", CHANGED, digest)
    if seen is not None and seen.name != name:
        return Standing("pending_approval", CHANGED)  # another skill was bound in this folder before
    return UNBOUND if root.trusted else Standing("pending_approval", NOT_TRUSTED)


def same_bytes(name: str, trusts: Trusts) -> str:
    """Why bytes may not be used that were disabled as `name`."""
    why = trusts.disabled.get(name, "")
    return f"{DISABLED}these very bytes were, as {name!r}: {why}; `metier skills enable {name}` lifts it"


def text_of(signature: Signature) -> str:
    """A signature as it is stored."""
    return ":".join(map(str, signature))
