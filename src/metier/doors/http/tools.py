"""What there is: tools in any provider's shape, skills, and the text that tells a model of them."""

from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct

from metier.catalog.digest_of import digest_of
from metier.catalog.listed import Listed
from metier.disclosure.schemas import Shape, shaped
from metier.doors.http.endpoint import Asking, Endpoint
from metier.doors.http.problem import not_found
from metier.model.digest import Json


@final
class ToolsAsked(Struct, frozen=True, kw_only=True):
    """Which shape they are wanted in."""

    shape: Shape = "openai"


@final
class Tools(Struct, frozen=True, kw_only=True):
    """As that provider's API takes them."""

    tools: list[dict[str, Json]]


@final
class SkillShown(Struct, frozen=True, kw_only=True):
    """A skill as the catalog has it."""

    name: str
    description: str
    status: str
    why: str
    """Why it cannot be used; empty when it can."""
    dialect: str
    version: str
    digest: str
    """Of its bytes, as the record has it; empty where nobody looked at them yet."""
    tools: list[str]
    model_may_invoke: bool
    user_may_invoke: bool


@final
class Skills(Struct, frozen=True, kw_only=True):
    """Every skill that was found."""

    skills: list[SkillShown]


@final
class PromptAsked(Struct, frozen=True, kw_only=True):
    """What it is for."""

    message: Annotated[str, Meta(max_length=8_000)] = ""
    """What the user said; only a large catalog is searched by it."""
    full: bool = False
    """The instructions themselves instead of a list to read from."""


@final
class Prompt(Struct, frozen=True, kw_only=True):
    """What to tell a model."""

    text: str


async def _tools(asking: Asking) -> Tools:
    query: ToolsAsked = asking.query
    offered = asking.runtime._offered  # pyright: ignore[reportPrivateUsage]  the same list, as far as it is his
    return Tools(tools=shaped(filter(await asking.offered(), offered), query.shape))


async def _skills(asking: Asking) -> Skills:
    listed = asking.runtime.catalog.by_name.values()
    found = [each for each in sorted(listed, key=lambda each: each.name) if _for(asking, each)]
    return Skills(skills=await to_thread.run_sync(lambda: [_shown(each) for each in found]))


async def _skill(asking: Asking) -> SkillShown:
    found = asking.runtime.catalog.by_name.get(asking.given["skill"])
    if found is None or not _for(asking, found):
        raise not_found()
    return await to_thread.run_sync(_shown, found)


def _for(asking: Asking, listed: Listed) -> bool:
    """An agent sees what it can use. Why others cannot be used speaks of this machine, and is for people."""
    return asking.identity.principal.kind == "human" or (
        listed.shown == "usable" and listed.skill is not None and listed.skill.model_may_invoke
    )


def _shown(listed: Listed) -> SkillShown:
    """Blocking."""
    skill = listed.skill
    return SkillShown(
        name=listed.name,
        description=skill.description if skill is not None else "",
        status=listed.shown,
        why=listed.why,
        dialect=skill.dialect if skill is not None else "",
        version=skill.version if skill is not None else "",
        digest=digest_of(listed),
        tools=[tool.name for tool in skill.tools] if skill is not None else [],
        model_may_invoke=skill is not None and skill.model_may_invoke,
        user_may_invoke=skill is not None and skill.user_may_invoke,
    )


async def _prompt(asking: Asking) -> Prompt:
    query: PromptAsked = asking.query
    text = await to_thread.run_sync(lambda: asking.runtime.prompt(query.message or None, full=query.full))
    return Prompt(text=text)


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/tools",
        about="The tools that a model can call for you, in a provider's shape.",
        does=_tools,
        query=ToolsAsked,
        answer=Tools,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/skills",
        about="Every skill that was found, also those that cannot be used, with the reason; for an agent those that it can use.",
        does=_skills,
        answer=Skills,
    ),
    Endpoint(
        method="GET",
        path="/api/v1/skills/{skill}",
        about="One skill.",
        does=_skill,
        answer=SkillShown,
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/prompt",
        about="The text that tells a model which skills there are.",
        does=_prompt,
        query=PromptAsked,
        answer=Prompt,
    ),
)
