"""An agent that is a text: a model is given its instructions and the tools of the skills it may use, once, until it has said its
last word. Each of its tool calls is a call of its own, made by the agent on behalf of whoever started it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from anyio import to_thread

from metier.catalog.agent_files import Instructed
from metier.config.agents import AgentSettings
from metier.disclosure import toolcalls
from metier.disclosure.schemas import Names, shaped
from metier.host.model_client import ModelClient, NoAnswer
from metier.model import strictjson
from metier.model.digest import Json
from metier.model.outcome import Outcome, Refused
from metier.model.skill import Answer, Skill, Tool

MOST_TURNS: Final = 16
MOST_CALLS: Final = 64
_BEGIN: Final = "Do now what your instructions say. Nobody answers questions; when you are done, say in a few words what you did."
Make: TypeAlias = Callable[[str, Json], Awaitable[Outcome]]
"""Makes a call of a tool in the name of the agent."""


def tools_of(agent: Instructed, skills: Sequence[Skill]) -> list[Tool] | str:
    """The tools it may use, or why it cannot be run."""
    usable = {each.name: each for each in skills if each.model_may_invoke}
    for name in agent.skills:
        if name not in usable:
            return f"it is to use the skill {name[:64]!r}, which cannot be used here; `metier skills check` says why"
    return [tool for name in agent.skills for tool in usable[name].tools]


async def talk(
    agent: Instructed, model: str, tools: list[Tool], settings: AgentSettings, make: Make, home: str
) -> str | NoAnswer:
    """The model's last word. `home` is the state folder, where its key may be kept."""
    internal, known = Names.of(tools).internal, {tool.name: tool for tool in tools}
    offered = cast("list[Json]", shaped(tools, "openai"))
    messages: list[Json] = [
        {"role": "system", "content": agent.instructions},
        {"role": "user", "content": _BEGIN},
    ]
    made = 0
    async with ModelClient(settings, home) as client:
        for _ in range(MOST_TURNS):
            said = await client.say(model, messages, offered)
            if isinstance(said, NoAnswer):
                return said
            try:
                asked = await to_thread.run_sync(_asked, said)
            except TypeError:
                return NoAnswer("the model's endpoint answered with tool calls that are none")
            if not asked:
                return _last_word(said)
            made += len(asked)
            if made > MOST_CALLS:
                return NoAnswer(f"the model made more than {MOST_CALLS} calls and was ended")
            messages += [_kept(said), *await _answers(asked, internal, known, make)]
    return NoAnswer(f"the model was not done after {MOST_TURNS} turns and was ended")


def _asked(said: dict[str, Json]) -> list[toolcalls.Asked]:
    """In a thread: there may be much JSON in it.

    Raises:
        TypeError: when what stands there as tool calls is something else.
    """
    given = said.get("tool_calls")
    if not isinstance(given, list | None) or said.get("function_call") is not None:
        raise TypeError("tool_calls is no list, or they stand elsewhere")
    found = toolcalls.parse(said, loads=strictjson.loads) if given else []
    if len(found) != len(given or ()):
        raise TypeError("some of tool_calls are none")
    return found


def _last_word(said: dict[str, Json]) -> str | NoAnswer:
    """A text, also one in parts, or nothing at all; whatever else it is was not understood."""
    content = said.get("content")
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        texts = [
            text for each in content if isinstance(each, dict) and isinstance(text := each.get("text"), str)
        ]
        if len(texts) == len(content):
            return "".join(texts)
    return NoAnswer("the model's endpoint answered with something that is no text")


def _kept(said: dict[str, Json]) -> dict[str, Json]:
    """What of its message the model is shown again."""
    return {"role": "assistant", "content": said.get("content"), "tool_calls": said.get("tool_calls")}


async def _answers(
    asked: list[toolcalls.Asked], internal: Mapping[str, str], known: Mapping[str, Tool], make: Make
) -> list[Json]:
    """One after the other: what an agent does has an order."""
    outcomes: list[Outcome] = []
    shapes: list[Answer] = []
    for each in asked:
        tool = known.get(internal.get(each.name, ""))
        shapes.append(tool.answer if tool is not None else "value")
        if tool is None or each.problem:
            outcomes.append(
                Refused(
                    call_id="",
                    code="invalid_arguments" if tool is not None else "unknown_tool",
                    reasons=(each.problem or f"this agent has no tool {each.name[:80]!r}",),
                    remedy=f"Its tools are: {', '.join(internal)}" if tool is None else "",
                )
            )
        else:
            outcomes.append(await make(tool.name, each.arguments))
    return cast("list[Json]", toolcalls.results(asked, outcomes, shapes))
