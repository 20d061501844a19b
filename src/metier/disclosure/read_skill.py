"""`read_skill`: a skill's instructions, then single files of it, always from the snapshot of what was trusted."""

from typing import Final

from metier.catalog.bundle import Snapshot
from metier.dialects.manifest import instructions
from metier.disclosure.content import PATH_LIMIT, skill_content, skill_file
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.model.permission import BASE_DIR, PermissionSet
from metier.model.skill import Skill, Tool
from metier.model.skill_path import base_dir
from metier.model.text import one_line

MAX_FILE_BYTES: Final = 262_144
"""Of a file that a model is shown."""
MAX_BYTES: Final = 700_000
"""Of a file whose bytes are handed to a program: in base64 it fits into the one MiB that clients take as one message."""

TOOL: Final = Tool(
    name="read_skill",
    description=(
        "Read a skill before you use it. With `name` alone: its instructions and the list of its files. "
        "With `path` too: one of those files."
    ),
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Name of the skill"},
            "path": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "description": "One of the files the skill lists, for example references/api.md",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    returns={"type": "string"},
    subject="name",
    subject_file="path",
    effect="read",
    risk="low",
    minimum_trust="observe",
    permissions=PermissionSet(reads=frozenset({BASE_DIR})),
    entry=Operation(module="skills", operation="read"),
)


def read_skill(call_id: str, skill: Skill, snapshot: Snapshot, path: str | None) -> Completed | Failed:
    """The instructions of `skill`, or the file that its bundle lists as `path`: the very text that was judged."""
    wanted = skill.manifest if path is None else path
    data = snapshot.read(wanted)
    if data is None:
        return _not_found(call_id, skill, snapshot, wanted)
    if len(data) > MAX_FILE_BYTES and path is not None:
        return Failed(
            call_id=call_id,
            code="too_large",
            message=f"{wanted!r} has {len(data):,} bytes; at most {MAX_FILE_BYTES:,} are shown",
        )
    if path is not None:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return Failed(
                call_id=call_id, code="not_text", message=f"{wanted!r} is not text and cannot be shown"
            )
        return Completed(call_id=call_id, value=skill_file(skill, wanted, text))
    resources = [file.path for file in snapshot.files if file.path != skill.manifest]
    body = instructions(data, skill.manifest)
    return Completed(call_id=call_id, value=skill_content(skill, body, resources, base_dir=base_dir(skill)))


def hand_out(call_id: str, skill: Skill, snapshot: Snapshot, path: str) -> Completed | Failed:
    """Which bytes a door hands out by itself, any that the bundle lists as `path`, as far as they are not too many."""
    file = next((each for each in snapshot.files if each.path == path), None)
    if file is None:
        return _not_found(call_id, skill, snapshot, path)
    if file.size > MAX_BYTES:
        return Failed(
            call_id=call_id,
            code="too_large",
            message=f"{path!r} has {file.size:,} bytes, and at most {MAX_BYTES:,} are handed out; a run of the skill has the whole "
            "file: call run_in_skill with a script of it that reads what is wanted",
        )
    return Completed(call_id=call_id, value=f"{path}: {file.size:,} bytes, sha256:{file.sha256}")


def _not_found(call_id: str, skill: Skill, snapshot: Snapshot, path: str) -> Failed:
    names = ", ".join(one_line(file.path, PATH_LIMIT) for file in snapshot.files[:20])
    return Failed(
        call_id=call_id,
        code="not_found",
        message=f"skill {skill.name!r} has no file {path!r}; it has: {names}",
    )
