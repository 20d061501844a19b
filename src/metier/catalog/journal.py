"""Says in the program's log what a catalog holds. Imported only by those who want a log."""

import logging
from typing import Final

from metier.catalog.catalog import Catalog
from metier.model.text import one_line

_log: Final = logging.getLogger("metier.catalog")
logging.getLogger("metier").addHandler(logging.NullHandler())  # silent unless the program wants a log


def tell(catalog: Catalog, *, seconds: float) -> None:
    """One line for every skill: loaded, or not usable and why."""
    for note in catalog.notes:
        _log.warning("root %s: %s", one_line(note.folder), one_line(note.problem.message))
    for each in catalog.listed:
        if each.shown == "usable":
            _log.info("skill loaded: %s from %s", one_line(each.name), one_line(each.folder))
        elif each.root.kind == "bundled" and each.shown == "disabled":  # nobody need be told
            _log.info("skill disabled: %s: %s", one_line(each.name), one_line(each.why))
        else:
            _log.warning("skill %s: %s: %s", each.shown, one_line(each.name), one_line(each.why))
    roots = len({each.root.path for each in catalog.listed})
    _log.info("%d skills below %d roots in %.1f ms", len(catalog.listed), roots, seconds * 1000)
