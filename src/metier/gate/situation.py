"""The facts an authorization rests on, gathered when it is made: what lies on disk now, and what was granted for it."""

import time
from typing import final

from msgspec import Struct

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.catalog.hold import Held, hold
from metier.model.call import ValidCall
from metier.model.permission import PermissionSet
from metier.model.requirement import RequirementError
from metier.record.trust import TrustStore


@final
class Situation(Struct, frozen=True, kw_only=True):
    """What is the case while one call is judged."""

    held: Held | None = None
    """The skill's bytes as they are now; None when the call concerns no skill."""
    granted: PermissionSet = PermissionSet()
    """What the operator lets that skill do."""
    missing: tuple[RequirementError, ...] = ()


def look(valid: ValidCall, *, catalog: Catalog, trust: TrustStore, bundles: BundleStore) -> Situation:
    """Gather the facts for one call. Blocking: it reads the disk."""
    listed = catalog.get(valid.skill.name) if valid.skill is not None else None
    if listed is None:
        return Situation()
    held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
    return Situation(held=held, granted=held.granted, missing=listed.missing)
