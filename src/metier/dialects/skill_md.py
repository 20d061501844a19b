"""From the bytes of a SKILL.md to a skill: which dialect it is written in, and what it says.

Nothing is read or written here, and nothing raises: what cannot become a skill becomes diagnostics. The same
function serves discovery, lint and every later look at the file, so there is one reading of a manifest.
"""

from typing import Final

from metier.dialects import agent_skills, openclaw
from metier.dialects.about import check_description, check_hidden, check_name
from metier.dialects.compiled import Compiled, finished, refused
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import read
from metier.dialects.metadata import NONE, metadata_of
from metier.dialects.scalars import SPACE
from metier.model.digest import Json
from metier.model.skill import Dialect, Source
from metier.model.text import one_line

MANIFEST: Final = "SKILL.md"
_OWN_TOOLS: Final[tuple[Dialect, ...]] = ("metier", "amber")
_WATCHED: Final = frozenset({*_OWN_TOOLS, *openclaw.NAMESPACES})


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
        return refused(document.diagnostics, name, description)
    draft = Draft(document)
    draft.words["location"] = location
    draft.words["source"] = source
    check_name(draft, name, folder)
    check_description(draft, description)
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
    if dialect in _OWN_TOOLS:
        rest = {key: value for key, value in rest.items() if key != dialect}
    agent_skills.apply(draft, fields, rest)
    if dialect == "amber":
        from metier.dialects import amber  # few skills bring tools, and a listing reads thousands

        amber.apply(draft, metadata.written["amber"], name)
    elif dialect == "metier":
        from metier.dialects import metier

        metier.apply(draft, metadata.written["metier"], name)
    for word in ("emoji", "homepage"):
        if word in draft.words:
            check_hidden(draft, word, str(draft.words[word]))
    return finished(draft, name, description, dialect, manifest, normal)


def _dialect(metadata: dict[str, Json]) -> Dialect:
    if not metadata or _WATCHED.isdisjoint(metadata):
        return "agent_skills"
    for dialect in _OWN_TOOLS:
        if dialect in metadata:
            return dialect
    return "openclaw"
