"""Are the skills of an installed distribution, our own among them, the files it brought? Installers hard-link them, so its RECORD
is asked."""

import base64
import os
from collections.abc import Iterable, Mapping

from metier.catalog.bundle import File


def vouches_for(folder: str, files: Iterable[File]) -> str:
    """Why the release does not vouch for these files; empty when it does, or when it runs from a source tree."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow to import, seldom needed

    try:
        recorded = distribution("metier").files or []
    except PackageNotFoundError:
        return ""
    shipped = {
        os.path.realpath(str(each.locate())): each.hash.value
        for each in recorded
        if each.hash is not None and each.hash.mode == "sha256" and "bundled" in each.parts
    }
    if not shipped:
        return ""  # an editable installation records no files of its own
    place = _other(folder, files, shipped)
    return f"{place} is not what this release shipped; install Metier again" if place else ""


def recorded(place: str, files: Iterable[File]) -> str:
    """Why these files of a skill are not those of the distribution they lie in; empty when they are."""
    from importlib.metadata import distributions

    alone = place.endswith(".py")
    folder = os.path.dirname(place) if alone else place
    inside = os.path.realpath(folder).rstrip(os.sep) + os.sep
    shipped = {
        path: each.hash.value
        for distribution in distributions(path=[os.path.dirname(place)])
        for each in distribution.files or ()
        if each.hash is not None
        and each.hash.mode == "sha256"
        and (path := os.path.realpath(str(each.locate()))).startswith(inside)
    }
    other = _other(folder, files, shipped)
    return (
        f"{other} is not what its distribution brought, as its RECORD has it; install it again"
        if other
        else ""
    )


def _other(folder: str, files: Iterable[File], shipped: Mapping[str, str]) -> str:
    """The first file that is not what was shipped; empty when all are."""
    for file in files:
        place = os.path.realpath(os.path.join(folder, *file.path.split("/")))
        value = base64.urlsafe_b64encode(bytes.fromhex(file.sha256)).rstrip(b"=").decode()
        if shipped.get(place) != value:
            return place
    return ""
