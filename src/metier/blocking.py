"""The public API for code without an event loop: the same runtime, driven from a thread of its own."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import final

from anyio import from_thread

from metier.catalog.catalog import Catalog
from metier.disclosure.schemas import Shape
from metier.hooks import Bootstrap
from metier.model.digest import Json
from metier.model.hook import BootstrapFile
from metier.model.outcome import Outcome, Pending
from metier.model.skill import Skill
from metier.runtime import Runtime


@final
class SyncRuntime:
    """`Runtime` for code without an event loop. Make one with `SyncRuntime.open`."""

    def __init__(self, runtime: Runtime, portal: from_thread.BlockingPortal) -> None:
        self._runtime = runtime
        self._portal = portal

    @classmethod
    @contextmanager
    def open(
        cls,
        *,
        roots: Sequence[str] = (),
        config: str | None = None,
        home: str | None = None,
        project: str | None = None,
        watch: bool = True,
        host: bool = False,
    ) -> "Generator[SyncRuntime]":
        """As `Runtime.open`."""
        with from_thread.start_blocking_portal() as portal:
            opening = Runtime.open(
                roots=roots, config=config, home=home, project=project, watch=watch, host=host
            )
            with portal.wrap_async_context_manager(opening) as runtime:
                yield cls(runtime, portal)

    @property
    def skills(self) -> list[Skill]:
        """As `Runtime.skills`."""
        return self._runtime.skills

    @property
    def is_host(self) -> bool:
        """As `Runtime.is_host`."""
        return self._runtime.is_host

    @property
    def catalog(self) -> Catalog:
        """As `Runtime.catalog`."""
        return self._runtime.catalog

    def call(
        self, tool: str, arguments: Json = None, *, wait: float = 0.0, unattended: bool = False
    ) -> Outcome:
        """As `Runtime.call`."""
        call = partial(self._runtime.call, wait=wait, unattended=unattended)
        return self._portal.call(call, tool, arguments)

    def wait_for(self, pending: Pending, seconds: float) -> Outcome:
        """As `Runtime.wait_for`."""
        return self._portal.call(self._runtime.wait_for, pending, seconds)

    def resume(self, approval_id: str) -> Outcome:
        """As `Runtime.resume`."""
        return self._portal.call(self._runtime.resume, approval_id)

    def bootstrap(self, files: Sequence[BootstrapFile] = (), *, session: str = "main") -> Bootstrap:
        """As `Runtime.bootstrap`."""
        return self._portal.call(partial(self._runtime.bootstrap, files, session=session))

    def prompt(
        self,
        message: str | None = None,
        *,
        system: str = "",
        full: bool = False,
        bootstrap: Bootstrap | None = None,
    ) -> str:
        """As `Runtime.prompt`."""
        return self._runtime.prompt(message, system=system, full=full, bootstrap=bootstrap)

    def tools(self, shape: Shape) -> list[dict[str, Json]]:
        """As `Runtime.tools`."""
        return self._runtime.tools(shape)

    def handle(self, tool_calls: object, *, wait: float = 0.0) -> list[dict[str, Json]]:
        """As `Runtime.handle`."""
        return self._portal.call(lambda: self._runtime.handle(tool_calls, wait=wait))

    def reload(self) -> None:
        """As `Runtime.reload`."""
        self._portal.call(self._runtime.reload)
