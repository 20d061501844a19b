"""An operation of a module: a tool like any other, and the function behind it.

`module.op` goes through every stage of the pipeline, whoever asks. A privileged one is for people who have its right, and for
skills that declared it by name and were granted it; an agent never gets it. One that is not privileged needs no declaration.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.model.call import Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.permission import PermissionSet
from metier.model.role import EXECUTE
from metier.model.skill import Audience, Limits, Tool

NOTHING: Final[dict[str, Json]] = {"type": "object", "properties": {}, "additionalProperties": False}
"""The parameters of an operation that takes none."""


@final
class Asked(Struct, frozen=True, kw_only=True):
    """An operation that is to be done now. Its call went through every stage, and its intent is on the record."""

    call_id: str
    principal: Principal
    """Who asks, as the door knows it; never what a client says."""
    module: str
    operation: str
    arguments: dict[str, Json]
    """As validated, without anything that speaks of who asks."""
    skill: str = ""
    """Whose module it was when it was judged; empty for ours. No other skill does it in the place of that one."""
    surroundings: Surroundings = Surroundings()
    depth: int = 0
    """How many running calls its call was made inside of."""
    cause: Cause = Cause()
    """What set its call off, where nobody asked for it."""
    unattended: bool = True
    """Whether nobody is there to be asked, as far as is known."""


@final
class OperationError(Exception):
    """Why an operation was not done, for who asked: a stable code and a sentence. Nothing of it is secret."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


Does: TypeAlias = Callable[[Asked], Awaitable[Json]]
"""Does it, and gives plain JSON. Runs in the loop: what blocks goes into a thread.

Raises:
    OperationError: where it cannot be done.
"""


@final
class Offered(Struct, frozen=True, kw_only=True):
    """One operation: what the gate judges, and what is done."""

    tool: Tool
    does: Does


@final
class Module(Struct, frozen=True, kw_only=True):
    """A name and its operations."""

    name: str
    operations: Mapping[str, Offered]


def offered(
    name: str,
    does: Does,
    description: str,
    parameters: dict[str, Json],
    *,
    privileged: bool = False,
    effect: Literal["read", "act"] = "act",
    risk: Literal["low", "medium", "high"] = "medium",
    minimum_trust: str = "",
    audience: Audience = "model",
    permission: str = EXECUTE,
    skill: str = "",
    limits: Limits | None = None,
) -> Offered:
    """The operation `name`, written `module.op`.

    Args:
        audience: `operator` for what agents and skills are always refused, whatever they declared.
        permission: the right that a person needs for it.
        skill: whose code does it, where it is not ours.
    """
    module, _, operation = name.partition(".")
    return Offered(
        tool=Tool(
            name=name,
            description=description,
            parameters=parameters,
            audience=audience,
            permission=permission,
            skill=skill,
            privileged=privileged,
            effect=effect,
            risk=risk,
            minimum_trust=minimum_trust or ("observe" if effect == "read" else "supervised_auto"),
            permissions=PermissionSet(operations=frozenset({name})) if privileged else PermissionSet(),
            limits=limits or Limits(),
            entry=Operation(module=module, operation=operation),
        ),
        does=does,
    )


def module(name: str, *operations: Offered) -> Module:
    """The module of these operations."""
    return Module(name=name, operations={each.tool.name.partition(".")[2]: each for each in operations})
