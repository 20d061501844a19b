"""The modules of one runtime: made when an operation of theirs is first asked for, or where this process is the host.

What works on the store alone is done here, whichever process this is. What needs the one that holds the host role is done by it:
here, or over the host line, after the call was judged and recorded here.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, final

import anyio
from anyio import to_thread

from metier.config.settings import Settings
from metier.errors import MetierError, NoHost
from metier.kernel.capability import Capability
from metier.kernel.host_line import HostLine
from metier.kernel.modules import Modules
from metier.kernel.operation import Asked, OperationError
from metier.kernel.skill_record import Life, enabled_since, lives, registered
from metier.kernel.store import Store
from metier.model.call import ApprovedCall
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed
from metier.model.ports import OperationFunction
from metier.model.skill import Tool
from metier.runtime.kernel_parts import Given, Parts

BY_THE_HOST: Final = frozenset(
    {"skills.enable", "skills.disable", "skills.reload_enabled", "skills.init_on_boot"}
)
"""Of our own modules; and everything that a skill registered."""
Do: TypeAlias = Callable[[Asked], Awaitable[Json]]
_log: Final = logging.getLogger("metier.kernel")
_NONE: Final[Mapping[str, Tool]] = MappingProxyType({})


@final
class Kernel:
    """Belongs to one loop. Nothing is read or imported for it before it is needed."""

    def __init__(self, home: str, given: Given) -> None:
        self._home = home
        self._given = given
        self._capability = Capability()
        self._line = HostLine(home)
        self._opening = anyio.Lock()
        self._parts: Parts | None = None
        self._seen = -1
        self._lives: dict[str, Life] = {}
        self._hosting = False

    @property
    def parts(self) -> Parts | None:
        """The modules, once there are any."""
        return self._parts

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Every operation there is; another object once anything changed."""
        return self._parts.modules.tools if self._parts is not None else _NONE

    async def open(self) -> Parts:
        """Make the modules, or look whether those of other processes changed.

        Raises:
            StateError: when what they keep cannot be used.
        """
        async with self._opening:
            if self._parts is None:
                store = await to_thread.run_sync(Store, self._home)
                self._parts = Parts(store, self._given, self._capability)
            if not self._hosting:
                await self._others(self._parts)
            return self._parts

    def is_behind(self, settings: Settings) -> bool:
        """Whether somebody enabled a skill after `settings` were read, as far as that was looked at."""
        return bool(enabled_since(settings, self._lives))

    async def host(self) -> Parts:
        """The same for the process that holds the host role: from now on what skills register is registered here."""
        parts = await self.open()
        self._hosting = True
        _forget(parts.modules)
        return parts

    def not_host(self) -> None:
        """The role was given back: what needs the host is for another process to do, which is looked at anew."""
        self._hosting = False
        self._seen = -1
        if self._parts is not None:
            _forget(self._parts.modules)

    def emit(self, name: str, payload: Json) -> None:
        """Tell everybody here that something happened."""
        if self._parts is not None:
            self._parts.events.emit(name, payload)

    def find(self, module: str, operation: str) -> OperationFunction | None:
        """The function behind an operation, for `execute`."""
        parts = self._parts
        if parts is None or not parts.modules.knows(module, operation):
            return None

        async def perform(approved: ApprovedCall) -> Completed | Failed:
            call = approved.authorized.valid.call
            asked = Asked(
                call_id=call.id,
                principal=call.principal,
                module=module,
                operation=operation,
                arguments=approved.authorized.valid.arguments,
                skill=approved.authorized.valid.tool.skill,
                surroundings=call.surroundings,
                depth=call.depth,
                cause=call.cause,
                unattended=call.unattended,
            )
            try:
                value = await self._doer(parts.modules, asked)(asked)
            except OperationError as error:
                return Failed(
                    call_id=call.id,
                    code="reported",
                    message=f"{error.code}: {error.message}",
                    value={"code": error.code, "message": error.message},
                )
            except MetierError as error:
                message = " ".join(filter(None, (error.message.rstrip(".") + ".", error.remedy)))
                code = "not_started" if isinstance(error, NoHost) else "internal"
                # The code of the error says to who asks whether it is the state that has to be mended, or this one call.
                return Failed(
                    call_id=call.id,
                    code=code,
                    message=message,
                    value={"code": error.code, "message": error.message},
                )
            return Completed(call_id=call.id, value=value)

        return perform

    async def do(self, asked: Asked) -> Json:
        """Do an operation here. Whoever asks has come through the gate.

        Raises:
            OperationError: where it cannot be done.
        """
        parts = self._parts or await self.open()
        return await parts.modules.do(asked, self._capability)

    def _doer(self, modules: Modules, asked: Asked) -> Do:
        name = f"{asked.module}.{asked.operation}"
        remote = name in BY_THE_HOST or bool(modules.owner(asked.module))
        return self._line.do if remote and not self._hosting else self.do

    async def _others(self, parts: Parts) -> None:
        """Know what skills have registered in the process that is the host."""
        changes = await to_thread.run_sync(parts.store.changes)
        if changes == self._seen:
            return
        self._seen = changes
        found, self._lives = await to_thread.run_sync(_known, parts.store)
        _forget(parts.modules)
        for name, (skill, operations) in found.items():
            try:
                parts.modules.register(skill, name, operations, self._line.do)
            except OperationError as error:  # the host would not have written it
                _log.warning("the module %s of %s is left out: %s", name, skill, error)

    async def aclose(self) -> None:
        """Let go of what is open."""
        if self._parts is not None:
            parts, self._parts = self._parts, None
            await to_thread.run_sync(parts.close)


def _known(store: Store) -> tuple[dict[str, tuple[str, tuple[str, ...]]], dict[str, Life]]:
    return registered(store), lives(store)


def _forget(modules: Modules) -> None:
    """Everything that skills registered elsewhere."""
    for skill in modules.keepers():
        modules.unregister(skill)
        modules.let_go(skill)  # whose a name is, is for the host to say
