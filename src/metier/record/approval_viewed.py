"""A request for somebody's word as it is shown to who may read the record and decides nothing: no more of it than the record shows."""

from typing import TYPE_CHECKING, Final, cast

import msgspec
from msgspec.structs import replace

from metier.model.digest import Json
from metier.record.payload import Payloads, payload_bytes
from metier.record.redact import masked
from metier.record.secret_arguments import kept_arguments
from metier.record.secret_text import MASK

if TYPE_CHECKING:
    from metier.model.approval import Approval

_NOT_KEPT: Final[dict[str, Json]] = {MASK: MASK}
"""Of a record that keeps hashes alone. An empty object would say that it is asked without arguments."""


def as_viewed(approval: "Approval", payloads: Payloads) -> "Approval":
    """The same without what only an approver is shown: arguments as the record keeps them, words masked as it masks them, and
    no fingerprint, with which one decides.

    Args:
        payloads: how much of a payload the record keeps.
    """
    shown = approval.shown
    if shown is None:
        return replace(approval, fingerprint="")
    hidden = replace(
        shown,
        arguments=_arguments(shown.tool, cast("Json", shown.arguments), payloads),
        permissions={kind: list(masked(tuple(names))) for kind, names in shown.permissions.items()},
        stands_for=masked(shown.stands_for),
        replaces=masked((shown.replaces,))[0],
        skill_says=masked((shown.skill_says,))[0],
        reasons=masked(shown.reasons),
    )
    return replace(approval, shown=hidden, fingerprint="")


def _arguments(tool: str, arguments: Json, payloads: Payloads) -> dict[str, Json]:
    if payloads == "hashes":
        return _NOT_KEPT
    kept = payload_bytes(kept_arguments(tool, arguments), payloads)
    return msgspec.json.decode(kept, type=dict[str, Json])
