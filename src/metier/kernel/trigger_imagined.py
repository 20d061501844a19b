"""An occasion that is only supposed to have happened, for who asks what it would set off."""

import time
from collections.abc import Callable

from metier.catalog.catalog import Catalog
from metier.kernel.channel_rows import channel_in
from metier.kernel.events import OURS, Happened
from metier.kernel.store import Store
from metier.kernel.trigger_match import Occasion, Phase
from metier.kernel.trigger_names import never_seen, tool_named
from metier.kernel.trigger_occasion import RECEIVED, names_of, of_event
from metier.model.digest import Json
from metier.model.text import one_line


def imagined(
    given: dict[str, Json], catalog: Catalog, store: Store, skill_of: Callable[[str], str]
) -> tuple[Occasion, str]:
    """It, and why it cannot come about as things are; empty where it can. Blocks."""
    if "tool" in given:
        return _call(str(given["tool"]), given.get("phase", "after"), catalog, skill_of)
    if "text" in given:
        return _message(given, store)
    name, source = str(given["event"]), str(given.get("source", OURS))
    return of_event(Happened(name=name, source=source, payload=given.get("payload"), at=time.time())), ""


def _call(name: str, phase: Json, catalog: Catalog, skill_of: Callable[[str], str]) -> tuple[Occasion, str]:
    tool = tool_named(catalog, name)
    when: Phase = "before" if phase == "before" else "instead" if phase == "instead" else "after"
    names = names_of(tool) if tool is not None else (name,)
    occasion = Occasion(
        kind="tool",
        name=names[0],
        names=names,
        source=OURS,
        counted="",
        around={"tool": {"name": names[0]}},
        phase=when,
    )
    return occasion, never_seen(catalog, name, skill_of)


def _message(given: dict[str, Json], store: Store) -> tuple[Occasion, str]:
    """Over a skill's channel it is that skill's word, and fewer hear it."""
    channel, note, skill = str(given.get("channel", "test")), "", ""
    if "channel" in given:
        with store.reading() as connection:
            found = channel_in(connection, channel)
        skill = found.owner if found is not None else ""
        note = "" if found is not None else f"there is no channel {one_line(channel, 60)!r} now"
    payload: Json = {
        "channel": channel,
        "chat": "test",
        "message": 0,
        "author": "",
        "text": given["text"],
        "skill": skill,
    }
    return of_event(Happened(name=RECEIVED, source=OURS, payload=payload, at=time.time())), note
