"""The agent that a call names: whoever agrees that it runs sees which file that is, and agrees to these bytes and to no others,
also in advance.

It concerns tools that MetaHuman's check `isValidAgent` holds to the agents there are. Blocking: the file is read.
"""

from typing import Final, final

from msgspec import Struct

from metier.catalog.agent_files import TEXT, WHERE, AgentFile, Instructed, find_agent, read_instructions
from metier.model.call import ValidCall
from metier.model.ground import Ground
from metier.model.text import one_line


@final
class NamedAgent(Struct, frozen=True, kw_only=True):
    """What lies there under the name. All of it is empty for a call that names none."""

    file: str = ""
    digest: str = ""
    line: str = ""
    """What an approver is told of it."""
    problem: str = ""
    """Why it cannot be run, so that nobody is asked about it."""


_CHECK: Final = "isValidAgent"
NO_AGENT: Final = NamedAgent()


def names_agent(valid: ValidCall) -> bool:
    """Whether there is a file to be read."""
    return _CHECK in valid.tool.checks.values()


def named_agent(valid: ValidCall, ground: Ground) -> NamedAgent:
    """The agent as it lies there now."""
    named = (valid.arguments.get(name) for name, check in valid.tool.checks.items() if check == _CHECK)
    name = next((each for each in named if isinstance(each, str)), "")
    if not name or not ground.workspace:
        return NO_AGENT
    found = find_agent(ground.workspace, name)
    if isinstance(found, str):
        return NamedAgent(problem=found)
    about = _about(found)
    if isinstance(about, Instructed):
        skills = ", ".join(one_line(each, 64) for each in about.skills)
        with_skills = f"the skills {skills}" if skills else "no skills"
        said = f"; a text for {one_line(about.model) or 'the model of [agents]'} with {with_skills}"
    elif about:
        return NamedAgent(problem=f"the agent {name!r} cannot be run: {about}")
    else:
        said = ""
    file = f"{found.name}{found.ending}"
    line = f"{name} is {WHERE}/{file}: {len(found.data):,} bytes, {found.digest}{said}"
    return NamedAgent(file=file, digest=found.digest, line=line)


def _about(agent: AgentFile) -> Instructed | str:
    """What a text says of itself, or what is wrong with it; empty for a program."""
    return read_instructions(agent.data) if agent.ending == TEXT else ""
