"""Other programs that load skills, each doing what `load.py` times: a folder of skills in, text for a model out.

`peers.py NAME ROOT` imports one of them, then times it, and prints one JSON object. Every peer has a process of
its own, so that neither its imports nor its memory touch another's figures.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, TypeAlias

Load: TypeAlias = Callable[[str], tuple[int, str]]
"""A folder of skills in; how many were loaded, and the text, out."""


def skills_ref() -> Load:
    """`to_prompt` gives up at the first bad skill, so each is read first and only the good ones are shown."""
    import html
    from pathlib import Path

    from skills_ref import read_properties

    def load(root: str) -> tuple[int, str]:
        lines: list[str] = []
        count = 0
        for folder in sorted(Path(root).iterdir()):
            try:
                skill = read_properties(folder)
            except Exception:  # noqa: S112  a skill it refuses
                continue
            count += 1
            name, about = html.escape(skill.name), html.escape(skill.description)
            lines.append(f"<skill>\n<name>\n{name}\n</name>\n<description>\n{about}\n</description>\n")
            lines.append(f"<location>\n{folder}/SKILL.md\n</location>\n</skill>")
        return count, "\n".join(("<available_skills>", *lines, "</available_skills>"))

    return load


def deepagents() -> Load:
    from deepagents.backends import FilesystemBackend
    from deepagents.middleware import skills

    def load(root: str) -> tuple[int, str]:
        backend = FilesystemBackend(root_dir=root, virtual_mode=True)
        middleware = skills.SkillsMiddleware(backend=backend, sources=["/"])
        found = skills._list_skills(backend, "/")
        return len(found), middleware._format_skills_list(found)

    return load


def google_adk() -> Load:
    from google.adk.skills import list_skills_in_dir
    from google.adk.skills.prompt import format_skills_as_xml

    def load(root: str) -> tuple[int, str]:
        found = list_skills_in_dir(root)
        return len(found), format_skills_as_xml(list(found.values()))

    return load


def fastmcp() -> Load:
    """It shows resources instead of a prompt; their names and descriptions make the text."""
    import anyio
    from fastmcp.server.providers.skills import SkillsDirectoryProvider

    def load(root: str) -> tuple[int, str]:
        provider = SkillsDirectoryProvider(roots=root)
        found: list[Any] = list(anyio.run(provider.list_resources))
        shown = [each for each in found if str(each.uri).endswith("/SKILL.md")]
        return len(shown), "\n".join(f"- {each.name}: {each.description}" for each in shown)

    return load


def agno() -> Load:
    """Without its validation, which refuses real skills and then loads nothing at all."""
    from agno.skills import LocalSkills, Skills

    def load(root: str) -> tuple[int, str]:
        skills = Skills(loaders=[LocalSkills(root, validate=False)])
        return len(skills.get_all_skills()), skills.get_system_prompt_snippet()

    return load


PEERS: dict[str, tuple[str, Callable[[], Load]]] = {
    "skills_ref": ("skills-ref", skills_ref),
    "deepagents": ("deepagents", deepagents),
    "google_adk": ("google-adk", google_adk),
    "fastmcp": ("fastmcp", fastmcp),
    "agno": ("agno", agno),
}


def measured(name: str, root: str) -> dict[str, Any]:
    """Best time of three, or the reason why there is none."""
    package, prepare = PEERS[name]
    try:
        load = prepare()
    except ImportError:
        return {"problem": "not installed"}
    logging.disable(logging.CRITICAL)  # their complaints about single skills are not timed
    best, count = float("inf"), 0
    for _ in range(3):
        start = time.perf_counter()
        count, text = load(root)
        best = min(best, time.perf_counter() - start)
        assert bool(text) == bool(count)
    return {"version": version(package), "seconds": best, "skills": count}


def main() -> None:
    """Print the measurement of one peer; whatever it does to standard output meanwhile is thrown away."""
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        result = measured(sys.argv[1], sys.argv[2])
    except Exception as error:
        result = {"problem": f"{type(error).__name__}: {error}"[:200]}
    with os.fdopen(out, "w") as stream:
        stream.write(json.dumps(result))


if __name__ == "__main__":
    main()
