"""Are the bundled skills the ones this release shipped? Installers hard-link them, so their RECORD is asked."""

import base64
import os
from collections.abc import Iterable

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
    for file in files:
        place = os.path.realpath(os.path.join(folder, *file.path.split("/")))
        value = base64.urlsafe_b64encode(bytes.fromhex(file.sha256)).rstrip(b"=").decode()
        if shipped.get(place) != value:
            return f"{place} is not what this release shipped; install Metier again"
    return ""
