"""The code that lies beside a manifest which does not name it: Amber's handler, and what a MetaHuman manifest describes."""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from msgspec.structs import replace

from metier.dialects.compiled import Compiled, refused
from metier.model.diagnostic import Diagnostic
from metier.model.entry import Entry, PythonHandler, ScriptHandler
from metier.model.skill import Skill

Files: TypeAlias = Callable[[], Collection[str]]
"""The files of the skill's folder, by name; asked only where it matters."""

_SUFFIXES: Final = {"metahuman": (".py", ".ts", ".js"), "amber": (".js", ".py")}
_USUAL: Final = {"amber": "handler.js"}


def with_code(compiled: Compiled, files: Files) -> Compiled:
    """The same skill with tools that run the file which is really there; without one it is no skill."""
    skill = compiled.skill
    if (
        skill is None
        or skill.dialect not in _SUFFIXES
        or not any(_open(skill, tool.entry) for tool in skill.tools)
    ):
        return compiled
    there, stem = files(), _stem(skill)
    for suffix in _SUFFIXES[skill.dialect]:
        if stem + suffix in there:
            return replace(compiled, skill=_running(skill, stem + suffix))
    names = " or ".join(stem + suffix for suffix in _SUFFIXES[skill.dialect])
    problem = Diagnostic(
        code="no_code",
        severity="error",
        message=f"there is no {names} beside {skill.manifest}; put the code there",
    )
    notes = (*compiled.diagnostics, problem)
    return refused(notes, compiled.name, compiled.description, compiled.metadata, compiled.dialect)


def _stem(skill: Skill) -> str:
    return "handler" if skill.dialect == "amber" else skill.manifest.rpartition(".")[0]


def _open(skill: Skill, entry: Entry) -> bool:
    """Whether the manifest left open which file it is."""
    if skill.dialect == "amber":
        return isinstance(entry, ScriptHandler) and entry.path == _USUAL["amber"]
    return isinstance(entry, PythonHandler) and entry.path == _stem(skill) + ".py"


def _running(skill: Skill, path: str) -> Skill:
    function = "execute" if skill.dialect == "metahuman" else "main"
    entry: Entry = PythonHandler(path=path, function=function)
    if not path.endswith(".py"):
        language = "typescript" if path.endswith(".ts") else "javascript"
        export = "execute" if skill.dialect == "metahuman" else "default"
        entry = ScriptHandler(path=path, language=language, export=export)
    tools = tuple(replace(each, entry=entry) if _open(skill, each.entry) else each for each in skill.tools)
    return replace(skill, tools=tools)
