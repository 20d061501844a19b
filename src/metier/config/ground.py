"""What this machine keeps where, as the configuration says it and the disk has it now."""

import os
from collections.abc import Mapping
from typing import Final

from metier.config.settings import Settings
from metier.model.ground import Ground
from metier.model.interpreters import is_interpreter

POLICY: Final = "policy.toml"


def ground_of(settings: Settings, environ: Mapping[str, str] | None = None) -> Ground:
    """The places that matter to what is granted. Blocking: it asks the disk where they really are."""
    environ = os.environ if environ is None else environ
    operators, *others = settings.files or (os.path.join(settings.home, "metier.toml"),)
    decides_by = (
        operators,
        os.path.join(settings.home, POLICY),
        # One that is not there restricts nothing, and nobody gains by making it.
        *(file for file in others if os.path.lexists(file)),
    )
    # Keys that the operator wrote in for his skills lie in one of these.
    keyed = any(entry.api_key or entry.env for entry in settings.skills.entries.values())
    secret_files = (*_secret_files(settings.secrets), *(settings.files if keyed else ()))
    workspace = os.path.join(settings.home, "workspace")
    roots = tuple(root.path for root in settings.roots if root.trusted and root.kind != "bundled")
    programs = settings.binaries.programs
    places = (settings.home, workspace, *roots, *decides_by, *secret_files)
    return Ground(
        state=settings.home,
        workspace=workspace,
        home=os.path.expanduser("~"),
        started_from=tuple(folder for folder in environ.get("PATH", "").split(os.pathsep) if folder),
        trusted_roots=roots,
        decides_by=decides_by,
        secret_files=secret_files,
        links={place: other for place in places if (other := _otherwise(place, settings)) != place},
        # Who says which file a name stands for has named it, also where the name is that of a shell.
        interpreters=settings.binaries.interpreters | frozenset(filter(is_interpreter, programs)),
        programs=programs,
    )


def _otherwise(place: str, settings: Settings) -> str:
    """The real path of a place, or how the operator writes one in the state folder; the place itself where there is no other."""
    real = os.path.realpath(place)
    inside = place == settings.home or place.startswith(settings.home + "/")
    if real == place and inside and settings.home_written:
        return settings.home_written + place.removeprefix(settings.home)
    return real


def _secret_files(secrets: Mapping[str, str]) -> tuple[str, ...]:
    if not secrets:
        return ()
    from metier.config.secret_references import read_references  # most installations have none

    found = read_references(secrets).values()
    return tuple(sorted(each.place for each in found if each.kind == "file"))
