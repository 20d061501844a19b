"""The digest of a skill's bytes, as the record has it. What ships with Metier is vouched for by the release, so the catalog measures it
only when it is called; whoever lists it wants to know all the same."""

import time
from functools import lru_cache

from metier.catalog.bundle import measure, tree_signature
from metier.catalog.listed import Listed
from metier.errors import BundleError


def digest_of(listed: Listed) -> str:
    """Empty where nobody looked at its bytes yet, or there are none to speak of. Blocking."""
    skill = listed.skill
    if skill is None or skill.digest or listed.root.kind != "bundled":
        return skill.digest if skill is not None else ""
    try:
        signature = tree_signature(listed.folder, now_ns=time.time_ns())
        measured = (
            _measured if signature else _measured.__wrapped__
        )  # what cannot vouch for the bytes is no key
        return measured(listed.folder, signature, listed.root.hard_links)
    except BundleError:
        return ""


@lru_cache(maxsize=512)
def _measured(folder: str, signature: str, hard_links: bool) -> str:
    del signature  # other files are measured anew
    return measure(folder, now_ns=time.time_ns(), hard_links=hard_links).digest
