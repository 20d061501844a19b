"""What an approver is shown of a call: all of it, or it cannot be asked."""

from typing import Final

import msgspec

from metier.gate.fingerprint import definition_digest
from metier.gate.roles import needed
from metier.model.approval import Shown
from metier.model.call import AuthorizedCall

MOST_BYTES: Final = 262_144
"""Nobody reads more than that, and what nobody reads nobody can approve."""


def shown(
    authorized: AuthorizedCall, *, cwd: str = "", programs: str = "", behind: tuple[str, ...] = ()
) -> Shown | str:
    """What is shown, or why nobody can be asked. `cwd` is the text of the working directory's identity, `programs` the digest of
    the files its programs are."""
    valid = authorized.valid
    call, tool, skill = valid.call, valid.tool, valid.skill
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
        arguments=valid.arguments,
        permissions=valid.permissions.plain(),
        cwd=call.cwd or "",
        place=cwd,
        programs=programs,
        right=needed(tool),
        definition=definition_digest(tool),
        effect=tool.effect,
        risk=tool.risk,
        cost=tool.cost,
        always_asks=tool.approval == "always",
        skill_says=tool.confirmation or "",
        reasons=authorized.verdict.reasons,
        session=call.surroundings.session or "",
        channel=call.surroundings.channel or "",
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
