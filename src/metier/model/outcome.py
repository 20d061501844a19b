"""How a call ended. `Refused` means nothing ran; `Failed` means it ran, or tried to."""

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json

RefusalCode: TypeAlias = Literal[
    "unknown_tool",
    "unknown_skill",
    "invalid_arguments",
    "skill_disabled",
    "skill_broken",
    "skill_unavailable",
    "not_trusted",
    "forbidden",
    "approval_required",
    "record_unavailable",
    "setup_unusable",
]
FailureCode: TypeAlias = Literal[
    "not_found", "too_large", "not_text", "interrupted", "unrecorded", "internal"
]

REMEDIES: Final[dict[RefusalCode, str]] = {
    "skill_disabled": "Enable it in the configuration if you want it",
    "skill_broken": "`metier skills check` says what to mend",
    "not_trusted": "Look at it with `metier skills info NAME`, then trust it with `metier skills trust NAME`",
    "forbidden": "Nobody gave you that right; a person may give it, or do it himself",
    "skill_unavailable": "`metier skills check` says how to get what is missing",
}
"""What to do about a refusal, where it is the same for every call."""


@final
class Completed(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="completed"):
    """It ran and this is what it returned."""

    call_id: str
    value: Json


@final
class Pending(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="pending"):
    """Nothing ran yet; somebody has to decide first."""

    call_id: str
    approval_id: str
    reasons: tuple[str, ...]


@final
class Refused(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="refused"):
    """Nothing ran."""

    call_id: str
    code: RefusalCode
    reasons: tuple[str, ...]
    remedy: str = ""


@final
class Failed(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="failed"):
    """It ran, or tried to, and did not end well."""

    call_id: str
    code: FailureCode
    message: str


Outcome: TypeAlias = Completed | Pending | Refused | Failed
