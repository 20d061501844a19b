"""The tools that triggers name: as they are called here (`fs_read/execute`), or as models and people call them (`fs_read`)."""

from collections.abc import Callable

from metier.catalog.catalog import Catalog
from metier.kernel.trigger import AnyTrigger, ToolTrigger
from metier.kernel.trigger_occasion import may_concern
from metier.model.skill import Tool
from metier.model.text import one_line


def internal(catalog: Catalog, name: str) -> str:
    """What is called here by a name that somebody says."""
    return name if name in catalog.tools else catalog.functions.get(name, name)


def tool_named(catalog: Catalog, name: str) -> Tool | None:
    """The tool of a skill that is meant; None where there is none now. What modules of living skills offer is not among them."""
    return catalog.tools.get(internal(catalog, name))


def never_seen(catalog: Catalog, name: str, skill_of: Callable[[str], str]) -> str:
    """Why no call of `name` sets off anything as things are; empty where one may."""
    tool = tool_named(catalog, name)
    shown = one_line(name, 60)
    if tool is not None:
        return "" if may_concern(tool) else f"calls of {shown!r} are none of triggers"
    if "." in name and skill_of(name.partition(".")[0]):
        return ""
    return f"there is no tool {shown!r} here now whose calls set off triggers"


def unlikely(catalog: Catalog, trigger: AnyTrigger, skill_of: Callable[[str], str]) -> str:
    """What somebody should know who sets it up: that it waits for calls that nobody can make now. The skill may come later."""
    names = trigger.tool_names if isinstance(trigger, ToolTrigger) else ()
    whole = (each for each in names if not each.endswith("*"))
    return next(filter(None, (never_seen(catalog, each, skill_of) for each in whole)), "")
