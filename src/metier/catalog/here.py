"""The catalog of this machine as it is now: environment, platform and trust store taken from where they are."""

import os
import sys

from metier.catalog.catalog import Catalog, load
from metier.catalog.requirements import Environment
from metier.config.settings import Settings
from metier.record.database import open_if_there
from metier.record.trust import NO_TRUSTS, Trusts, TrustStore


def environment_here(settings: Settings) -> Environment:
    """What skills can find on this machine."""
    return Environment(
        path=os.environ.get("PATH", os.defpath),
        env=dict(os.environ),
        platform=sys.platform,
        config=settings.config,
        entries=settings.skills.entries,
        programs=settings.binaries.programs,
    )


def owner() -> str:
    """Who this machine's state belongs to: the local user, by the number the system knows him by."""
    return f"human:uid-{os.getuid()}" if hasattr(os, "getuid") else "human:local"


def catalog_here(settings: Settings, *, thorough: bool = False) -> Catalog:
    """Load the catalog; looking never creates any state.

    Args:
        thorough: look at every file of every skill, not only at its manifest.

    Raises:
        StateError: when there is a state database and it cannot be read.
    """
    return load(
        settings, trusts=trusts_here(settings), environment=environment_here(settings), thorough=thorough
    )


def trusts_here(settings: Settings) -> Trusts:
    """What is trusted on this machine; nothing when there is no state yet."""
    database = open_if_there(settings.database)
    if database is None:
        return NO_TRUSTS
    with database:
        return TrustStore(database).all()
