"""Which modules there are: ours, and those that skills register while they live. Names are taken once, and stay with the skill that
took one also while it is down: nobody answers in its place for what people mean for it.

Privileged operations are guarded here, where they are done: without the capability of this start nothing of them is, whoever
found the function.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, final

from metier.dialects.names import skeleton
from metier.kernel.capability import Capability
from metier.kernel.operation import Asked, Does, Module, Offered, OperationError, offered
from metier.model.digest import Json
from metier.model.skill import Limits, Tool
from metier.model.text import one_line

CONFLICT: Final = "E_SKILLS_MODULE_CONFLICT"
BAD_MODULE: Final = "E_SKILLS_BAD_MODULE"
FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
NOT_READY: Final = "E_SKILLS_NOT_READY"
"""It was not asked at all: it is still being enabled, just ended, or is not the skill any more that was judged."""
MOST_MODULES: Final = 16
"""Of one skill."""
MOST_OPERATIONS: Final = 128
"""Of one module."""
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_ANYTHING: Final[dict[str, Json]] = {"type": "object", "additionalProperties": True}
_NOT_OPERATIONS: Final = frozenset({"constructor", "prototype", "__proto__"})
RESERVED: Final = frozenset(
    {"metier", "memory", "agents", "operator", "hooks", "kernel", "approvals", "audit", "telegram_door"}
)
"""Modules of ours that are not in here, and words that nobody else shall have."""
OF_SHIPPED: Final[Mapping[str, str]] = MappingProxyType({"telegram": "xpell-agent-skill-telegram"})
"""Modules of skills that ship with Metier, by the one skill that may register each: people send such a module their tokens."""


@final
class Modules:
    """Belongs to one loop."""

    def __init__(self, own: Sequence[Module], capability: Capability) -> None:
        self._capability = capability
        self._modules: dict[str, Module] = {each.name: each for each in own}
        self._own = frozenset(self._modules)
        self._skill_of: dict[str, str] = {}
        self._kept: dict[str, str] = {}
        """Names that are a skill's whether it lives or not, and whose; of each skill the last it took come last."""
        self._tools: Mapping[str, Tool] = {}
        self._changed()

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every operation by its name. Another object once anything changed."""
        return self._tools

    def of(self, skill: str) -> tuple[str, ...]:
        """The modules that `skill` registered, in that order."""
        return tuple(name for name, owner in self._skill_of.items() if owner == skill)

    def owner(self, module: str) -> str:
        """The skill that registered `module`; empty for ours, and for one that is not there."""
        return self._skill_of.get(module, "")

    def register(
        self, skill: str, name: str, operations: Sequence[str], does: Does, limits: Limits | None = None
    ) -> None:
        """Have `skill` answer for the module `name`. Its operations are not privileged and judged like acts of the skill.

        The name stays with `skill` until it is let go of.

        Raises:
            OperationError: for a name that is none, or is taken or kept, or looks like one that is.
        """
        if not _WORD.fullmatch(name):
            raise OperationError(
                BAD_MODULE, f"{one_line(name, 60)!r} is no name of a module: letters, digits, _ and -"
            )
        if len(self.of(skill)) >= MOST_MODULES:
            raise OperationError(BAD_MODULE, f"a skill registers at most {MOST_MODULES} modules")
        like = skeleton(name)
        taken = next((each for each in (*RESERVED, *self._modules) if skeleton(each) == like), None)
        if taken is not None:
            raise OperationError(CONFLICT, f"there is a module {taken!r} already; give yours another name")
        self._require_not_anothers(like, skill)
        kept = next((each for each in OF_SHIPPED if skeleton(each) == like), None)
        if kept is not None and (name, skill) != (kept, OF_SHIPPED[kept]):
            message = f"the module {kept!r} is that of {OF_SHIPPED[kept]}, which ships with Metier; give yours another name"
            raise OperationError(CONFLICT, message)
        if not operations or len(operations) > MOST_OPERATIONS:
            raise OperationError(
                BAD_MODULE, f"a module has 1 to {MOST_OPERATIONS} operations, {name!r} has {len(operations)}"
            )
        made: dict[str, Offered] = {}
        for each in operations:
            if not _WORD.fullmatch(each) or each in _NOT_OPERATIONS:
                raise OperationError(BAD_MODULE, f"{one_line(each, 60)!r} is no name of an operation")
            made[each] = offered(
                f"{name}.{each}",
                does,
                f"An operation of the skill {skill}.",
                _ANYTHING,
                skill=skill,
                limits=limits,
            )
        self._modules[name] = Module(name=name, operations=made)
        self._skill_of[name] = skill
        self._keep(name, skill)
        self._changed()

    def keep(self, names: Mapping[str, str]) -> None:
        """These names are kept for these skills, from earlier lives of theirs."""
        for name, skill in names.items():
            self._keep(name, skill)

    def kept_for(self, skill: str) -> tuple[str, ...]:
        """The names that are kept for `skill`, those of now among them."""
        return tuple(name for name, owner in self._kept.items() if owner == skill)

    def keepers(self) -> frozenset[str]:
        """The skills for which a name is kept."""
        return frozenset(self._kept.values())

    def let_go(self, skill: str) -> None:
        """What was kept for `skill` is anybody's; it shall not live any more."""
        for name in self.kept_for(skill):
            del self._kept[name]

    def _keep(self, name: str, skill: str) -> None:
        self._kept.pop(name, None)
        self._kept[name] = skill
        # Who takes other names in each of his lives keeps no more than he could have at one time.
        past = [each for each in self.kept_for(skill) if self.owner(each) != skill]
        for each in past[: max(0, len(self.kept_for(skill)) - MOST_MODULES)]:
            del self._kept[each]

    def _require_not_anothers(self, like: str, skill: str) -> None:
        for name, owner in self._kept.items():
            if owner != skill and skeleton(name) == like:
                raise OperationError(
                    CONFLICT,
                    f"the module {name!r} is that of the skill {owner}, also while that is down; give yours another name, or let "
                    f"go of it with `metier skills stop {owner}`",
                )

    def unregister(self, skill: str) -> None:
        """Remove everything that `skill` registered."""
        gone = self.of(skill)
        for name in gone:
            del self._modules[name], self._skill_of[name]
        if gone:
            self._changed()

    def knows(self, module: str, operation: str) -> bool:
        """Whether there is such an operation."""
        found = self._modules.get(module)
        return found is not None and operation in found.operations

    async def do(self, asked: Asked, shown: Capability | None) -> Json:
        """Do it.

        Raises:
            OperationError: where there is no such operation, it is another skill's by now than the one that was judged, or it is
                privileged and nothing of this start was shown for it.
        """
        module = self._modules.get(asked.module)
        found = module.operations.get(asked.operation) if module is not None else None
        name = f"{asked.module}.{asked.operation}"
        if found is None:
            raise OperationError(BAD_MODULE, f"there is no operation {name} any more")
        if found.tool.skill != asked.skill:
            raise OperationError(
                NOT_READY,
                f"{name} is another skill's now than when it was asked for, and was not done; ask again",
            )
        if found.tool.privileged and not self._capability.admits(shown):
            raise OperationError(FORBIDDEN, f"{name} is privileged, and was not asked for by way of the gate")
        return await found.does(asked)

    def _changed(self) -> None:
        self._tools = MappingProxyType(
            {
                each.tool.name: each.tool
                for module in self._modules.values()
                for each in module.operations.values()
            }
        )
