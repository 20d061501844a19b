"""A skill that lives: it is enabled, answers what the host asks of its modules, and is disabled. The same process for as long.

It is given a `ctx` with exactly the members of an XBot skill's, and no more. Operations run side by side in one event loop; one
that does not wait holds up the others, and it is the host's matter how long it does.

Standard library only: the package is not importable here.
"""

import asyncio
import contextvars
import inspect
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from metier.sandbox.guest.exported import imported
    from metier.sandbox.guest.python_bridge import Bridge, HostError, Message, Reply, plain, show, told
    from metier.sandbox.guest.python_module import Module
else:
    from exported import imported
    from python_bridge import HostError, plain, show, told
    from python_module import Module

RAISED = -32000
MESSAGE_MOST, NAME_MOST = 8_000, 100
LAST_REQUESTS_SECONDS = 2.0
"""How long a life that was disabled waits for answers to what it asked last."""
INSIDE: "contextvars.ContextVar[object]" = contextvars.ContextVar("inside", default=None)
"""Which operation the code works for that runs now: what it asks for is told as part of that one."""


class Done:
    """What is done already. It may be awaited all the same, as those do who come from JavaScript."""

    def __await__(self) -> "Generator[Any, None, None]":
        yield from ()


class Identity:
    """Who the skill is; written `skill.id` or `skill["id"]`."""

    __slots__ = ("_id", "_version")

    def __init__(self, identity: str, version: str) -> None:
        self._id = identity
        self._version = version

    @property
    def id(self) -> str:
        return self._id

    @property
    def version(self) -> str:
        return self._version

    def __getitem__(self, name: str) -> str:
        return {"id": self._id, "version": self._version}[name]


class Life:
    """One of them, from the first word to the last."""

    def __init__(self, bridge: "Bridge") -> None:
        self._bridge = bridge
        self._modules: dict[str, Module] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._disabled: asyncio.Future[int] = self._loop.create_future()

    def live(self) -> None:
        """Until it is disabled."""
        sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
        self._loop.run_until_complete(self._live())

    async def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._bridge.listen(self._loop, self._asked)
        run = self._bridge.run
        module = run["module"] or os.path.basename(run["path"]).removesuffix(".py")
        loaded = imported(run["path"], "skill" if module == "__init__" else module)
        skill: object = getattr(loaded, "skill", None)
        known: Message = run["context"].get("skill") or {
            "id": of(skill, "id") or "",
            "version": of(skill, "version") or "",
        }
        context = context_of(self, Identity(str(known["id"]), str(known["version"])))
        await done(enabler(loaded, skill), context)
        self._bridge.send({"method": "ready"})
        number = await self._disabled
        try:
            await done(of(skill, "on_disable", "onDisable"), context)
        except BaseException as error:  # noqa: BLE001  the code's own, whatever it is
            self._refuse(number, error)
        else:
            self._bridge.send({"id": number, "result": None})
        await self._last_answers()

    async def _last_answers(self) -> None:
        """What was asked for before the end is done before the end, within reason."""
        until = self._loop.time() + LAST_REQUESTS_SECONDS
        while self._bridge.is_owed and self._loop.time() < until:  # noqa: ASYNC110  it happens once
            await asyncio.sleep(0.01)

    # What the skill may do

    def ask(self, method: str, params: "Message") -> "Reply":
        return self._bridge.ask(method, params)

    def register(self, instance: object) -> Done:
        """Have the host know a module, before anything else is done."""
        module = Module(instance)
        asked: Message = {"name": module.name, "operations": module.operations}
        self._bridge.ask("module.register", {**asked, "hears": True} if module.hears else asked).wait()
        self._modules[module.name] = module
        return Done()

    # What the host asks

    def _asked(self, message: "Message") -> None:
        if message["params"].get("life") == "disable":
            if not self._disabled.done():
                self._disabled.set_result(message["id"])
            return
        does = self._hear if "event" in message["params"] else self._operate
        task = self._loop.create_task(does(message["id"], message["params"]))
        self._tasks.add(task)  # a loop alone does not hold on to it
        task.add_done_callback(self._tasks.discard)

    async def _hear(self, number: int, asked: "Message") -> None:
        """Every module that listens is told, whatever another does with it."""
        INSIDE.set(asked["inside"])
        failed: list[BaseException] = []
        for module in (*self._modules.values(),):
            try:
                await module.hear(asked["event"], asked["payload"], asked["meta"])
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001  the code's own, whatever it is
                failed.append(error)
        for error in failed[1:]:
            show(error)
        if failed:
            self._refuse(number, failed[0])
        else:
            self._bridge.send({"id": number, "result": None})

    async def _operate(self, number: int, asked: "Message") -> None:
        meta: Message = asked.get("meta") or {}
        INSIDE.set(meta.get("call_id"))
        try:
            module = self._modules.get(asked["module"])
            if module is None:
                raise HostError("NotFound", f"there is no module {asked['module']!r} here")
            value = await module.do(asked["op"], asked.get("params") or {}, meta)
        except GeneratorExit:  # everything ends, and nobody listens any more
            raise
        except BaseException as error:  # noqa: BLE001  also a cancelled task that it waited for, or `sys.exit`: who asked is told
            self._refuse(number, error)
            return
        try:
            line = self._bridge.line(f'{{"jsonrpc":"2.0","id":{number},"result":{plain(value)}}}')
        except (TypeError, ValueError, RecursionError) as error:
            line = b""
            why = f"what the operation returned is not plain JSON: {told(error)}"
        else:
            why = "what the operation returned is larger than a message may be"
        if not line or len(line) > self._bridge.run["most_message"]:
            self._refuse(number, HostError("BadResult", why))
        else:
            self._bridge.write(line)

    def _refuse(self, number: int, error: BaseException) -> None:
        name = error.name if isinstance(error, HostError) else getattr(error, "code", None)
        if not isinstance(error, HostError):
            show(error)
        if not isinstance(name, str) or not name:
            name = type(error).__name__
        # Half characters are no text, and no other side could read them.
        said = told(error)[:MESSAGE_MOST].encode("utf-8", "replace").decode()
        data = {"name": name[:NAME_MOST].encode("utf-8", "replace").decode()}
        self._bridge.send({"id": number, "error": {"code": RAISED, "message": said, "data": data}})


def context_of(life: Life, identity: Identity) -> object:
    """What a skill is handed: these members and no other."""

    class Context:
        __slots__ = ()

        @property
        def skill(self) -> Identity:
            return identity

        def execute(self, module: str, op: str, params: object = None, meta: object = None) -> "Reply":
            """Have an operation done; its value, or an error with a `name`."""
            given: Message = {"module": module, "op": op, "params": params or {}, "meta": meta or {}}
            return life.ask("execute", belonging(given))

        def register_module(self, instance: object) -> Done:
            """Answer for a module from now on."""
            return life.register(instance)

        registerModule = register_module  # XBot's own spelling

        def emit(self, event_name: str, payload: object = None) -> "Reply":
            """Tell whoever listens that something happened. Need not be awaited."""
            return life.ask("emit", belonging({"name": event_name, "payload": payload}))

        def log(self, level: str, msg: str, meta: object = None) -> "Reply":
            """Say what is being done. Need not be awaited."""
            return life.ask("log", {"level": level, "message": msg, "meta": meta or {}})

        def state_get(self, key: str) -> "Reply":
            return life.ask("state.get", {"key": key})

        def state_set(self, key: str, value: object) -> "Reply":
            return life.ask("state.set", {"key": key, "value": value})

    return Context()


def belonging(asked: "Message") -> "Message":
    """The host believes it only of an operation that is under way, and counts by the deepest where it is told none."""
    inside = INSIDE.get()
    return {**asked, "for": inside} if isinstance(inside, str) else asked


def of(skill: object, *names: str) -> "Any":
    """A field of a contract, which is a dict or has attributes."""
    if isinstance(skill, dict):
        given: dict[object, object] = skill  # pyright: ignore[reportUnknownVariableType]
        found = [given.get(name) for name in names]
    else:
        found = [getattr(skill, name, None) for name in names]
    return next((each for each in found if each is not None), None)


def enabler(loaded: object, skill: object) -> "Any":
    """What begins the life of a skill."""
    if skill is not None:
        found = of(skill, "on_enable", "onEnable")
        if not callable(found):
            raise AttributeError("`skill` has no function `on_enable`; a skill begins there")
        return found
    found = of(loaded, "register_skill", "registerSkill")
    if not callable(found):
        raise AttributeError("the package has neither `skill` nor a function `register_skill`")
    return found


async def done(function: "Any", context: object) -> None:
    """Call it, where there is one, and wait for what it leaves to wait for."""
    if callable(function):
        left = function(context)
        if inspect.isawaitable(left):
            await left
