"""Trying a skill: a form for one of its tools, made from its schema, that makes a call like any other."""

from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct

from metier.catalog.listed import Listed
from metier.disclosure.read_skill import TOOL as READ_SKILL
from metier.doors.http.console.page import Page
from metier.doors.http.console.skills_fields import ascii_json, fields_of
from metier.doors.http.console.skills_words import may, named, reasons, status_of
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import not_found
from metier.gate.roles import needed
from metier.model.permission_words import permissions
from metier.model.role import READ_AUDIT
from metier.model.skill import Tool

_MOST: Final = 50


@final
class Which(Struct, frozen=True, kw_only=True):
    """Which of its tools."""

    tool: Annotated[str, Meta(max_length=400)] = ""


def tools_of(listed: Listed) -> tuple[Tool, ...]:
    """What can be called of it: its own tools, or reading it, which is all that can be done with instructions."""
    if listed.skill is None:
        return ()
    return listed.skill.tools or (READ_SKILL,)


async def _try(asking: Asking) -> dict[str, object]:
    which: Which = asking.query
    engine, name = asking.serving.engine, asking.given["skill"]
    await engine.refresh()
    listed = named(engine.seen.catalog, name)
    if listed is None:
        raise not_found("no skill of that name was found here")
    tools = tools_of(listed)
    tool = (
        next((each for each in tools if each.name == which.tool), None)
        if which.tool
        else next(iter(tools), None)
    )
    if which.tool and tool is None:
        raise not_found("the skill has no such tool")
    status, tone = status_of(listed)
    about: dict[str, object] = {
        "name": name,
        "usable": listed.shown == "usable",
        "status": status,
        "tone": tone,
        "reasons": reasons(listed),
        "tools": [each.name for each in tools[:_MOST]],
        "many": len(tools),
        "tool": tool,
    }
    if tool is None:
        return about
    given = {"name": name} if tool is READ_SKILL else {}
    return {
        **about,
        "fields": await to_thread.run_sync(fields_of, tool.parameters, given),
        "sent": ascii_json(tool.name),
        "may": may(permissions(tool.permissions)),
        "right": needed(tool),
        "owner": asking.identity.principal.id == asking.serving.gatekeeper.owner,
    }


PAGES: Final = (
    Page(
        path="/skills/{skill}/try",
        template="skill_try.html",
        title="Try a skill",
        shows=_try,
        menu="Skills",
        right=(READ_AUDIT,),
        query=Which,
        told=("skills",),
    ),
)
