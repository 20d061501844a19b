"""What an approver is shown of a call: all of it, or it cannot be asked."""

import os
from typing import Final

import msgspec

from metier.gate.fingerprint import definition_digest
from metier.gate.roles import needed
from metier.model.approval import Shown
from metier.model.call import AuthorizedCall
from metier.model.entry import Entry, InlineCode, Operation, Program, PythonHandler, ScriptHandler, WasmModule

MOST_BYTES: Final = 262_144
"""Nobody reads more than that, and what nobody reads nobody can approve."""


def shown(
    authorized: AuthorizedCall,
    *,
    cwd: str = "",
    programs: str = "",
    interpreter: str = "",
    stands_for: tuple[str, ...] = (),
    replaces: str = "",
    behind: tuple[str, ...] = (),
    four_eyes: bool = False,
    project: str = "",
) -> Shown | str:
    """What is shown, or why nobody can be asked. `cwd` is the text of the working directory's identity, `programs` the digest of
    the files its programs are, `interpreter` one of them that is one by another name, `stands_for` what the operator's own programs among them are, `replaces` which file is lost,
    `project` the folder whose configuration restricts the call."""
    valid = authorized.valid
    call, tool, skill = valid.call, valid.tool, valid.skill
    file = authorized.bytes.file if authorized.bytes else ""
    made = Shown(
        tool=tool.name,
        description=tool.description,
        principal=call.principal.id,
        kind=call.principal.kind,
        on_behalf_of=call.principal.on_behalf_of or "",
        behind=behind,
        skill=skill.name if skill else "",
        version=skill.version if skill else "",
        skill_digest=authorized.bytes.digest if authorized.bytes else "",
        file=file,
        language=_language(tool.entry) if file else "",
        arguments=valid.arguments,
        permissions=valid.permissions.plain(),
        cwd=call.cwd or "",
        place=cwd,
        programs=programs,
        interpreter=interpreter,
        stands_for=stands_for,
        replaces=replaces,
        right=needed(tool),
        definition=definition_digest(tool),
        effect=tool.effect,
        risk=tool.risk,
        cost=tool.cost,
        always_asks=tool.approval == "always",
        skill_says=tool.confirmation or "",
        ours=skill is None or isinstance(tool.entry, Operation | Program),
        four_eyes=four_eyes,
        project=real_project(project),
        reasons=authorized.verdict.reasons,
        session=call.surroundings.session or "",
        channel=call.surroundings.channel or "",
        cause=call.cause.chat,
        parent=call.parent or "",
    )
    try:
        size = len(msgspec.json.encode(made))
    except UnicodeEncodeError:
        return "it cannot be shown to anybody: it holds a path that is no text"
    if size > MOST_BYTES:
        return (
            f"what an approver would have to read has {size:,} bytes, and {MOST_BYTES:,} are the most: "
            "too long to be shown, so nobody can be asked"
        )
    return made


def real_project(folder: str) -> str:
    """Which folder a project is, whatever a link leads to later; empty where there is none. Blocking: it looks at the disk."""
    return os.path.realpath(folder) if folder else ""


def _language(entry: Entry) -> str:
    match entry:
        case PythonHandler():
            return "python"
        case ScriptHandler() | InlineCode():
            return entry.language
        case WasmModule():
            return "wasm"
        case _:
            return ""
