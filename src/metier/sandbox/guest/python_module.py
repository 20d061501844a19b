"""A module of a skill that lives: its name, and which of its methods are operations.

Two ways of writing one are known. A plain one has methods `say(params, meta)`. One in the manner of XBot's XModule has a `_name` and
methods `_say(command)`, where `command` is the parameters and, besides them, `_module`, `_op` and `_params`. A list `operations`
(or `ops`) says it outright. A method `on_event(name, payload, meta)` is no operation: it is told what happens.

Standard library only: the package is not importable here.
"""

import inspect
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from metier.sandbox.guest.python_bridge import HostError, Message
else:
    from python_bridge import HostError

METHODS = (types.FunctionType, staticmethod, classmethod)
BOTH = 2
HEARS = ("on_event", "onEvent")


class Operation:
    """A method that is one."""

    __slots__ = ("as_command", "function", "takes")

    def __init__(self, function: "Callable[..., Any]", as_command: bool = False) -> None:
        self.function = function
        self.as_command = as_command
        self.takes = _takes(function)
        """How many of parameters and meta it wants."""


class Module:
    """Read off an instance once, when it is registered."""

    def __init__(self, instance: object) -> None:
        self._instance = instance
        given: object = self._field("name") or self._field("_name")
        if not isinstance(given, str) or not given or isinstance(instance, type):
            raise TypeError(
                "a module is an instance with a `name` (or `_name`), and methods as its operations"
            )
        self.name: str = given
        self._does: dict[str, Operation] = self._listed() or self._found()
        heard = [each for each in map(self._field, HEARS) if callable(each)]
        self._hears: Callable[..., Any] | None = heard[0] if heard else None
        if not self._does and self._hears is None:
            raise TypeError(
                f"the module {given!r} has no operations; give it methods, or a list `operations`"
            )

    @property
    def operations(self) -> "list[str]":
        return [*self._does]

    @property
    def hears(self) -> bool:
        """Whether it wants to be told of events."""
        return self._hears is not None

    async def hear(self, name: str, payload: object, meta: "Message") -> None:
        """Something happened."""
        if self._hears is not None:
            value = self._hears(*(name, payload, meta)[: _takes(self._hears, 3)])
            if inspect.isawaitable(value):
                await value

    async def do(self, operation: str, params: "Message", meta: "Message") -> object:
        """What the operation returns, also where that has to be waited for."""
        found = self._does.get(operation)
        if found is None:
            raise HostError("NotFound", f"the module {self.name!r} has no operation {operation!r}")
        if found.as_command:
            params = {**params, "_module": self.name, "_op": operation, "_params": params}
        value = found.function(*(params, meta)[: found.takes])
        return await value if inspect.isawaitable(value) else value

    def _field(self, name: str) -> object:
        if isinstance(self._instance, dict):
            given: dict[object, object] = self._instance  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
            return given.get(name)
        return getattr(self._instance, name, None)

    def _listed(self) -> "dict[str, Operation]":
        """Those that it lists itself, by name or by name and function."""
        listed = self._field("operations") or self._field("ops")
        if isinstance(listed, dict):
            several: dict[object, Any] = listed  # pyright: ignore[reportUnknownVariableType]
            return {
                str(name): Operation(each)
                for name, each in several.items()
                if callable(each) and name not in HEARS
            }
        if not isinstance(listed, list | tuple):
            return {}
        found: dict[str, Operation] = {}
        names: list[object] = [*listed]
        for name in names:
            if name in HEARS:
                continue
            plain, command = self._field(f"{name}"), self._field(f"_{name}")
            if callable(plain):
                found[f"{name}"] = Operation(plain)
            elif callable(command):
                found[f"{name}"] = Operation(command, as_command=True)
            else:
                raise TypeError(f"the module {self.name!r} lists {name!r}, and has no such method")
        return found

    def _found(self) -> "dict[str, Operation]":
        """Its methods. Those of the one way of writing it count, and those of the other only where there are none."""
        plain: dict[str, Operation] = {}
        commands: dict[str, Operation] = {}
        for name in self._methods():
            method = self._field(name)
            if name.startswith("__") or name.removeprefix("_") in HEARS or not callable(method):
                continue
            if name.startswith("_"):
                commands[name[1:]] = Operation(method, as_command=True)
            else:
                plain[name] = Operation(method)
        first, second = (commands, plain) if self._field("_name") else (plain, commands)
        return first or second

    def _methods(self) -> "list[str]":
        """Names of its own methods and of those of its classes; nothing that every object has, nothing worked out when asked."""
        if isinstance(self._instance, dict):
            keys: list[object] = [*self._instance]  # pyright: ignore[reportUnknownMemberType]
            return [str(key) for key in keys]
        own: Message = getattr(self._instance, "__dict__", {})
        names = [name for name, each in own.items() if isinstance(each, types.FunctionType)]
        for kind in type(self._instance).__mro__:
            if kind is not object:
                names += [name for name, each in vars(kind).items() if isinstance(each, METHODS)]
        return [*dict.fromkeys(names)]


def _takes(function: "Callable[..., Any]", most: int = BOTH) -> int:
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return most
    if any(each.kind is each.VAR_POSITIONAL for each in given):
        return most
    return min(most, sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in given))
