"""A friday skill: `skill.json` or `skill.yaml` with instructions, patterns and actions of three kinds.

JSON and YAML give the same skill. Nothing is opened and nothing raises: what cannot become a skill becomes diagnostics.
A file may say that it came from less trusted hands than its root says, never from better ones.
"""

from typing import Final

from metier.dialects import friday_bound
from metier.dialects.about import check_description, check_hidden, check_name
from metier.dialects.compiled import Compiled, finished, refused
from metier.dialects.draft import Draft
from metier.dialects.friday_actions import tools_of
from metier.dialects.friday_part import Part
from metier.dialects.friday_schemas import described
from metier.dialects.friday_standing import source_of, status_of
from metier.dialects.friday_triggers import declared_of, patterns_of
from metier.dialects.frontmatter import Document
from metier.dialects.manifest_file import read
from metier.dialects.names import name_problem
from metier.dialects.scalars import SPACE, number_text
from metier.dialects.tool_words import bring
from metier.model.entry import Command
from metier.model.permission import PermissionSet
from metier.model.requirement import Requirements
from metier.model.skill import Source, Tool
from metier.model.text import one_line

MARKS: Final = frozenset({"actions", "instructions", "triggerPatterns"})
"""One of these makes a file a friday skill."""
LONGEST_NAME: Final = 200
LONGEST_DESCRIPTION: Final = 2_000
LONGEST_INSTRUCTIONS: Final = 8_000
# fmt: off
KEPT: Final = frozenset({
    "mcpToolsAllowed", "routing", "autonomyLevel", "outputSchema", "linkedWorkflowId", "usageCount", "invokedCount",
    "author", "category", "tags", "createdAt", "updatedAt", "lastUsedAt",
})
KEPT_TEXTS: Final = {"useWhen": 500, "doNotUseWhen": 500, "successCriteria": 300, "emergencyStopProcedure": 1_000}
# fmt: on
"""Fields of later versions of F.R.I.D.A.Y.: kept and shown as they are."""


def compile_skill(data: bytes, *, folder: str, manifest: str, location: str, source: Source) -> Compiled:
    """The skill that `data` describes.

    Args:
        folder: the name of the folder it lies in, not a path.
        manifest: the name of the file; what it ends in says how it is written.
        location: the path of that folder, passed on as it is.
        source: where it came from, as its root says.
    """
    document = read(data, manifest)
    name = folder.strip(SPACE)
    if document.fields is None:
        return refused(document.diagnostics, name, "", dialect="friday")
    draft = Draft(document)
    whole = Part(draft, document.fields)
    if MARKS.isdisjoint(document.fields):
        message = (
            "it has neither actions, instructions nor triggerPatterns, so it is no friday skill; add one"
        )
        draft.note("not_friday", "error", message)
        return refused(tuple(draft.notes), name, "", dialect="friday")
    name = whole.text("id", LONGEST_NAME).strip(SPACE) or name
    description = whole.text("description", LONGEST_DESCRIPTION).strip(SPACE)
    check_name(draft, name, folder)
    if whole.sound:
        check_description(draft, description)
    draft.words["location"] = location
    draft.words["source"] = source_of(whole, source)
    _texts(whole, name)
    _names(whole)
    patterns_of(whole)
    approval = whole.flag("requireApproval") is True
    tools = tools_of(whole, name, described(whole), approval=approval)
    friday_bound.check(whole, tools)
    declared_of(whole, name, tools)
    bring(draft, tools, PermissionSet(), _required(tools))
    status_of(whole)
    _keep(whole)
    return finished(draft, name, description, "friday", manifest)


def _texts(whole: Part, name: str) -> None:
    """Display name, instructions, version and the texts that are only kept."""
    draft = whole.draft
    shown = whole.text("name", LONGEST_NAME)
    if shown and shown != name:
        draft.extra["name"] = shown
        check_hidden(draft, "name", shown)
    # The text itself is read again when somebody asks for it; see `Skill`.
    check_hidden(draft, "instructions", whole.text("instructions", LONGEST_INSTRUCTIONS))
    for key, most in KEPT_TEXTS.items():
        if kept := whole.text(key, most):
            draft.extra[key] = kept
    whole.asked.add("version")
    version = whole.fields.get("version")
    if isinstance(version, str):
        draft.words["version"] = version.strip(SPACE)
    elif isinstance(version, int | float) and not isinstance(version, bool):
        written = _as_written(draft.document, "version").partition(" #")[0].strip(SPACE)
        draft.words["version"] = written if written[:1].isdigit() else number_text(version)
    elif version is not None:
        whole.note("bad_field", "error", "`version` is neither a text nor a number", "version")


def _as_written(document: Document, key: str) -> str:
    """A number as it stands in the file: `1.10` is not 1.1, in YAML or in JSON."""
    if not document.block.lstrip(SPACE).startswith("{"):
        return document.raw(key) or ""
    import json  # few files leave the quotes out

    try:
        return str(json.loads(document.block, parse_float=str)[key])
    except ValueError:
        return ""  # YAML in braces


def _names(whole: Part) -> None:
    """Dependencies and what it provides."""
    words = whole.draft.words
    for key, word in (("dependencies", "depends_on"), ("provides", "provides")):
        names = whole.texts(key, LONGEST_NAME) or ()
        for name in names:
            if problem := name_problem(name):
                message = f'`{key}` names "{one_line(name, 60)}", which is refused: {problem}'
                whole.note("bad_field", "error", message, key)
        if names:
            words[word] = names


def _required(tools: tuple[Tool, ...]) -> Requirements:
    programs = [tool.entry.argv[0] for tool in tools if isinstance(tool.entry, Command)]
    return Requirements(binaries=tuple(dict.fromkeys(programs)))


def _keep(whole: Part) -> None:
    for key, value in whole.unread().items():
        whole.draft.extra[key] = value
        if key not in KEPT:
            message = (
                f'"{one_line(key, 60)}" is no field that Metier knows; it is kept and shown, nothing more'
            )
            whole.note("unknown_field", "info", message, key)
