"""Metier runs agent skills: it loads them, decides for every call, and keeps a record of what happened.

What is not named in `__all__` is private. Names are resolved when they are first used, so that importing the
package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from metier.blocking import SyncRuntime
    from metier.catalog.catalog import Catalog
    from metier.catalog.listed import Listed
    from metier.errors import (
        BundleError,
        ConfigError,
        MetierError,
        RecordError,
        StateError,
    )
    from metier.hooks.bootstrap import Bootstrap
    from metier.model.diagnostic import Diagnostic
    from metier.model.hook import BootstrapFile
    from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
    from metier.model.permission import PermissionDiff, PermissionSet
    from metier.model.requirement import Installer, RequirementError, Requirements
    from metier.model.skill import Skill, Tool
    from metier.runtime import Runtime

__version__ = "0.1.0"

_PLACES: Final = {
    "Bootstrap": "metier.hooks.bootstrap",
    "BootstrapFile": "metier.model.hook",
    "BundleError": "metier.errors",
    "Catalog": "metier.catalog.catalog",
    "Completed": "metier.model.outcome",
    "ConfigError": "metier.errors",
    "Diagnostic": "metier.model.diagnostic",
    "Failed": "metier.model.outcome",
    "Installer": "metier.model.requirement",
    "Listed": "metier.catalog.listed",
    "MetierError": "metier.errors",
    "Outcome": "metier.model.outcome",
    "Pending": "metier.model.outcome",
    "PermissionDiff": "metier.model.permission",
    "PermissionSet": "metier.model.permission",
    "RecordError": "metier.errors",
    "Refused": "metier.model.outcome",
    "RequirementError": "metier.model.requirement",
    "Requirements": "metier.model.requirement",
    "Runtime": "metier.runtime",
    "Skill": "metier.model.skill",
    "StateError": "metier.errors",
    "SyncRuntime": "metier.blocking",
    "Tool": "metier.model.skill",
}

__all__ = [
    "Bootstrap",
    "BootstrapFile",
    "BundleError",
    "Catalog",
    "Completed",
    "ConfigError",
    "Diagnostic",
    "Failed",
    "Installer",
    "Listed",
    "MetierError",
    "Outcome",
    "Pending",
    "PermissionDiff",
    "PermissionSet",
    "RecordError",
    "Refused",
    "RequirementError",
    "Requirements",
    "Runtime",
    "Skill",
    "StateError",
    "SyncRuntime",
    "Tool",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module 'metier' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
