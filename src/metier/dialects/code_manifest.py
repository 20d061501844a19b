"""Manifests that exist only as code: MetaHuman's `export const manifest`, and XBot's contract.

Before such a file was run it is a name and nothing else: no tools, no permissions but its own folder. It is run once its bytes
are trusted, in a sandbox without permissions, and what came out of that becomes the skill here. A skill keeps the
name it was trusted under, whatever its code says.
"""

import json
import re
from typing import Final, Literal

from msgspec.structs import replace

from metier.dialects import metahuman, package_file, xbot
from metier.dialects.compiled import Compiled, Probe, refused
from metier.dialects.metahuman_inputs import check_of
from metier.dialects.names import name_problem
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.entry import PythonHandler, ScriptHandler
from metier.model.skill import Dialect, Skill, Source
from metier.model.text import one_line

EXPORT: Final = "metier:probe"
"""What a sandbox is asked to call in such a file: no function of that name, but a reader of ours."""
VALIDATE: Final = "metier:validate:"
"""The same, to have the functions of a manifest look at the inputs named after it."""
PACKAGE: Final = "package.json"
_STEM: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


def waiting(data: bytes, *, folder: str, manifest: str, location: str, source: Source) -> Compiled:
    """What can be said of such a file before it was run: how it is called."""
    dialect: Probe = "metahuman" if manifest.endswith((".ts", ".js")) else "xbot"
    name, problem = _name(data, folder, manifest)
    if not problem and (odd := name_problem(name)):
        message = f'the name "{one_line(name, 60)}" is refused: {odd}; rename it'
        return _refused("bad_name", message, name, dialect)
    if not problem and isinstance(entry := entry_of(data, manifest), str):
        problem = entry
    if problem:
        return _refused("bad_package", problem, name, dialect)
    skill = Skill(
        name=name,
        description="",
        dialect=dialect,
        manifest=manifest,
        location=location,
        source=source,
        key=_own_name(data) if manifest == PACKAGE else "",
        model_may_invoke=False,
    )
    note = Diagnostic(
        code="needs_probe",
        severity="info",
        message="it exists only as code; once it is trusted it is run in a sandbox without permissions, to be read",
    )
    return Compiled(skill=skill, diagnostics=(note,), name=name, dialect=dialect, probe=dialect)


def entry_of(data: bytes, manifest: str) -> ScriptHandler | PythonHandler | str:
    """What is run to read it, or why nothing can be."""
    if manifest.endswith(".py"):
        return PythonHandler(path=manifest, function=EXPORT)
    path = manifest
    if manifest == PACKAGE:
        found = package_file.read(data)
        if isinstance(found, str):
            return found
        path = found.entry
    language: Literal["typescript", "javascript"] = "typescript" if path.endswith("ts") else "javascript"
    return ScriptHandler(path=path, language=language, export=EXPORT)


def read(
    compiled: Compiled,
    exported: dict[str, Json],
    problem: str = "",
    *,
    location: str = "",
    source: Source = "user",
) -> Compiled:
    """The skill, now that it is known what the code says.

    Args:
        compiled: what `waiting` gave for the same bytes.
        exported: what the code exports, as plain data.
        problem: why it could not be run; then it is no skill.
    """
    skill = compiled.skill
    if skill is None or not compiled.probe:
        return compiled
    if problem:
        message = (
            f"reading it by running it failed: {one_line(problem, 500)}; mend the file, or have it read again with"
            f" `metier skills trust {one_line(compiled.name, 80)}`"
        )
        return _refused("probe_failed", message, compiled.name, compiled.probe)
    if compiled.probe == "metahuman":
        return _metahuman(skill, exported, location, source)
    contract = exported.get("contract")
    if not isinstance(contract, dict):
        return _refused("bad_export", "the package exports no contract", skill.name, "xbot")
    fields: dict[str, Json] = contract
    if fields.get("legacy") is True:
        fields = {"id": skill.key or skill.name, **fields}
    found = xbot.of_contract(fields, manifest=skill.manifest, location=location, source=source)
    if found.skill is not None and found.skill.name != skill.name:
        message = (
            f'its id "{one_line(found.skill.key, 80)}" is not the name of its package, "{one_line(skill.name, 80)}"; '
            "a skill is trusted under the name of its package, so both must be the same"
        )
        return _refused("bad_export", message, skill.name, "xbot")
    if found.skill is None:
        return refused(found.diagnostics, skill.name, found.description, dialect="xbot")
    return found


def _metahuman(skill: Skill, exported: dict[str, Json], location: str, source: Source) -> Compiled:
    manifest = exported.get("manifest")
    if not isinstance(manifest, dict):
        return _refused("bad_export", "the file exports no manifest", skill.name, "metahuman")
    stem, _, ending = skill.manifest.rpartition(".")
    fields, validator = _with_validators(manifest, exported.get("unbound"))
    found = metahuman.of_manifest(
        fields,
        stem=stem,
        manifest=skill.manifest,
        location=location,
        source=source,
        language="typescript" if ending == "ts" else "javascript",
        path=skill.manifest,
        exports=(validator,) if validator else (),
    )
    return _asking(found, validator) if validator else found


def _asking(found: Compiled, validator: str) -> Compiled:
    """The skill whose code is asked about its inputs, also where all of them have to pass a known check besides."""
    if found.skill is None:
        return found
    tools = tuple(
        replace(tool, validator=replace(tool.entry, export=validator))
        if isinstance(tool.entry, ScriptHandler)
        else tool
        for tool in found.skill.tools
    )
    return replace(found, skill=replace(found.skill, tools=tools))


def _with_validators(manifest: dict[str, Json], unbound: Json) -> tuple[dict[str, Json], str]:
    """The manifest with every function that checks an input as text: those that only ask one of the known checks as they
    are written, all others as one name; and that name, by which a sandbox is asked to have them look at the inputs.

    Args:
        unbound: by input, the name its function calls that the file does not have. Where the file has a function of the name
            of a known check, both are asked. Other code around a check that it does not have could never be run, so it is
            left as it is written, and refused.
    """
    asked = unbound if isinstance(unbound, dict) else {}
    inputs = manifest.get("inputs")
    if not isinstance(inputs, dict):
        return manifest, ""
    written = {name: code for name, given in inputs.items() if (code := _function(given)) is not None}
    run = sorted(written.keys() - asked.keys())
    validator = f"{VALIDATE}{json.dumps(run)}" if run else ""
    told: dict[str, Json] = {}
    for name, given in inputs.items():
        if isinstance(given, dict) and name in written:
            known = check_of(written[name]) is not None and given.get("type") == "string"
            told[name] = {**given, "validation": written[name] if known or name in asked else validator}
        else:
            told[name] = given
    return {**manifest, "inputs": told}, validator


def _function(given: Json) -> str | None:
    """The text of the function that checks an input, where there is one."""
    validation = given.get("validation") if isinstance(given, dict) else None
    code = validation.get("function") if isinstance(validation, dict) else None
    return code if isinstance(code, str) else None


def _name(data: bytes, folder: str, manifest: str) -> tuple[str, str]:
    """What it is called, and why it may not be."""
    if manifest == PACKAGE:
        found = package_file.read(data)
        return (folder, found) if isinstance(found, str) else (xbot.plain_name(found.name), "")
    stem = manifest.rpartition(".")[0]
    if manifest.endswith(".py"):
        # A Python package has an underscore where the name of a skill has a hyphen.
        return (folder if manifest == "__init__.py" else stem).replace("_", "-"), ""
    problem = "" if _STEM.fullmatch(stem) else "its name is not made of letters, digits, `_`, `-` and `.`"
    return stem, problem


def _own_name(data: bytes) -> str:
    found = package_file.read(data)
    return "" if isinstance(found, str) else found.name


def _refused(code: str, message: str, name: str, dialect: Dialect) -> Compiled:
    return refused((Diagnostic(code=code, severity="error", message=message),), name, "", dialect=dialect)
