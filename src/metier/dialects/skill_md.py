"""From the bytes of a SKILL.md to a skill: which dialect it is written in, and what it says.

Nothing is read or written here, and nothing raises: what cannot become a skill becomes diagnostics. The same
function serves discovery, lint and every later look at the file, so there is one reading of a manifest.
"""

from typing import Final, final

from msgspec import Struct

from metier.dialects import agent_skills, openclaw
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import read
from metier.dialects.metadata import NONE, metadata_of
from metier.dialects.names import code_points, is_standard, name_problem, style_problems
from metier.dialects.scalars import SPACE
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.skill import Dialect, Skill, Source
from metier.model.text import INVISIBLE, hidden, one_line

MANIFEST: Final = "SKILL.md"
LONGEST_DESCRIPTION: Final = 1024
_LATER: Final[tuple[Dialect, ...]] = ("metier", "amber")
_WATCHED: Final = frozenset({*_LATER, *openclaw.NAMESPACES})


@final
class Compiled(Struct, frozen=True, kw_only=True):
    """What a manifest turned out to be."""

    skill: Skill | None
    """None when it cannot be used; then an error among the diagnostics says why."""
    diagnostics: tuple[Diagnostic, ...] = ()
    metadata: dict[str, Json] | None = None
    """The openclaw block in OpenClaw's normal form, with what OpenClaw would drop under `extra`."""
    name: str = ""
    """For display, also when the skill was refused."""
    description: str = ""
    dialect: Dialect = "agent_skills"


def compile_skill(
    data: bytes, *, folder: str, manifest: str = MANIFEST, location: str = "", source: Source = "user"
) -> Compiled:
    """The skill that `data` describes.

    Args:
        folder: the name of the folder it lies in, not a path.
        location: the path of that folder, passed on as it is.
        source: where it came from, passed on as it is.
    """
    document = read(data)
    name = document.text("name") or folder.strip(SPACE)
    description = document.text("description")
    fields = document.fields
    if fields is None:
        return _refused(document.diagnostics, name, description)
    draft = Draft(document)
    draft.words["location"] = location
    draft.words["source"] = source
    if name != folder or not is_standard(name):
        _check_name(draft, name, folder)
    if not (
        description.isascii() and description.isprintable() and 0 < len(description) <= LONGEST_DESCRIPTION
    ):
        _check_description(draft, description)
    if manifest != MANIFEST:
        message = f'"{one_line(manifest, 40)}" is not found by programs that look for {MANIFEST}; rename it'
        draft.note("manifest_name", "warning", message)
    metadata = metadata_of(document, _WATCHED) if "metadata" in fields else NONE
    if metadata.problem is not None:
        draft.notes.append(metadata.problem)
    dialect = "agent_skills" if metadata is NONE else _dialect(metadata.written)
    normal: dict[str, Json] | None = None
    if metadata.openclaw and (found := openclaw.block_of(metadata.openclaw)) is not None:
        normal = openclaw.apply(draft, *found)
        rest = {key: value for key, value in metadata.written.items() if key != found[0]}
    else:
        rest = metadata.written
    agent_skills.apply(draft, fields, rest)
    if dialect in _LATER:
        message = (
            f"the tools of metadata.{dialect} are not offered by this version; only the instructions are"
        )
        draft.note("tools_not_offered", "warning", message, "metadata")
    for word in ("emoji", "homepage"):
        if word in draft.words:
            _check_hidden(draft, word, str(draft.words[word]))
    return _finished(draft, name, description, dialect, manifest, normal)


def _finished(
    draft: Draft,
    name: str,
    description: str,
    dialect: Dialect,
    manifest: str,
    normal: dict[str, Json] | None,
) -> Compiled:
    """The skill, unless an error was found on the way."""
    if draft.unsaid:
        message = f"{draft.unsaid} more findings are not listed"
        draft.notes.append(Diagnostic(code="more_findings", severity="info", message=message))
    notes = tuple(draft.notes)
    for note in notes:
        if note.severity == "error":
            return _refused(notes, name, description, normal, dialect)
    words = draft.words
    if draft.extra:
        words["extra"] = draft.extra
    skill = Skill(name=name, description=description, dialect=dialect, manifest=manifest, **words)
    return Compiled(
        skill=skill, diagnostics=notes, metadata=normal, name=name, description=description, dialect=dialect
    )


def _dialect(metadata: dict[str, Json]) -> Dialect:
    if not metadata or _WATCHED.isdisjoint(metadata):
        return "agent_skills"
    for dialect in _LATER:
        if dialect in metadata:
            return dialect
    return "openclaw"


def _check_name(draft: Draft, name: str, folder: str) -> None:
    if problem := name_problem(name):
        message = f'the name "{one_line(name, 60)}" is refused: {problem}; choose lower-case words joined by hyphens'
        draft.note("bad_name", "error", message, "name")
    elif problems := style_problems(name, folder):
        message = f'the name "{one_line(name, 60)}" departs from the standard: {"; ".join(problems)}'
        draft.note("name_style", "warning", message, "name")


def _check_description(draft: Draft, description: str) -> None:
    if not description:
        fields = draft.document.fields or {}
        other = next((key for key in fields if key.lower() == "description" and key != "description"), None)
        found = f', "{other}" is not read' if other else ""
        message = f"there is no description{found}; write `description: what it does and when to use it`"
        draft.note("no_description", "error", message, other or "description")
        return
    if len(description) > LONGEST_DESCRIPTION:
        message = f"the description has {len(description)} characters, {LONGEST_DESCRIPTION} are allowed; shorten it"
        draft.note("long_description", "warning", message, "description")
    _check_hidden(draft, "description", description)


def _check_hidden(draft: Draft, key: str, text: str) -> None:
    if (text.isascii() and text.isprintable()) or not INVISIBLE.search(text):
        return
    if unseen := hidden(text):
        message = f"{key} holds characters that cannot be seen ({code_points(unseen)}); remove them"
        draft.note("hidden_characters", "warning", message, key)


def _refused(
    notes: tuple[Diagnostic, ...],
    name: str,
    description: str,
    metadata: dict[str, Json] | None = None,
    dialect: Dialect = "agent_skills",
) -> Compiled:
    # A folder's name may hold bytes that are no text; what is kept for display must be storable.
    shown = name.encode("utf-8", "backslashreplace").decode()
    return Compiled(
        skill=None, diagnostics=notes, metadata=metadata, name=shown, description=description, dialect=dialect
    )
