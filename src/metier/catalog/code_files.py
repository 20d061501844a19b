"""Whether the files are there that a skill's tools run. Asked at every listing: a manifest that did not change does not know
that a file beside it went."""

import os

from metier.catalog.folder import BESIDE, stem_of
from metier.dialects.compiled import Compiled, refused
from metier.model.diagnostic import Diagnostic
from metier.model.entry import PythonHandler, ScriptHandler, WasmModule
from metier.model.skill import Skill
from metier.model.text import one_line


def with_files(compiled: Compiled, folder: str, *, alone: bool) -> Compiled:
    """The same, or no skill where a file is missing.

    Args:
        folder: where the manifest lies.
        alone: whether the skill shares that folder, so that only files of the manifest's own name are its own.
    """
    skill = compiled.skill
    if skill is None or not skill.tools:
        return compiled
    for path in _paths(skill):
        own = not alone or (stem_of(path) == stem_of(skill.manifest) and path.endswith(BESIDE))
        if own and os.path.isfile(f"{folder}/{path}"):
            continue
        where = f"of the skill's files ({stem_of(skill.manifest)}.*)" if alone else "in the skill's folder"
        message = f"a tool runs {one_line(path, 80)!r}, which is no file {where}; put it there, or name the right one"
        problem = Diagnostic(code="no_code", severity="error", message=message)
        notes = (*compiled.diagnostics, problem)
        return refused(notes, compiled.name, compiled.description, compiled.metadata, compiled.dialect)
    return compiled


def _paths(skill: Skill) -> dict[str, None]:
    entries = [entry for tool in skill.tools for entry in (tool.entry, tool.validator)]
    return {
        entry.path: None for entry in entries if isinstance(entry, ScriptHandler | PythonHandler | WasmModule)
    }
