"""What the stages of one call work with: made anew for each, from what was seen when it began."""

import os
from collections.abc import Mapping
from typing import final

from anyio import to_thread
from msgspec import Struct

from metier.catalog.catalog import Catalog
from metier.gate.agent_bytes import names_agent
from metier.gate.situation import NO_SKILL, Situation, look
from metier.hooks import Hooks, together
from metier.host.running import Running
from metier.model.call import ApprovedCall, ValidCall
from metier.pipeline import House
from metier.prepare import Workshop
from metier.record.recorder import Recorder
from metier.record.turn import Busy
from metier.runtime.inner import Inner
from metier.runtime.kernel_here import KernelHere
from metier.runtime.modules import Modules
from metier.runtime.sandboxes import Sandboxes
from metier.runtime.state import Operations, Seen, State


@final
class Housing(Struct, frozen=True, kw_only=True):
    """The same for every call of a runtime."""

    state: State
    recorder: Recorder
    sandboxes: Sandboxes
    inner: Inner
    running: Running
    modules: Modules
    kernel: KernelHere
    hooks: Hooks

    def house(self, seen: Seen) -> House:
        """For a call that begins with what was `seen`."""
        # What is judged, approved and run is given one and the same surroundings.
        state, catalog, environ = self.state, seen.catalog, dict(os.environ)

        async def look_now(valid: ValidCall) -> Situation:
            found = NO_SKILL
            if valid.skill is not None:
                found = await to_thread.run_sync(
                    lambda: look(valid, catalog=catalog, trust=state.trust, bundles=state.bundles)
                )
            try:
                if valid.call.approval is None and not names_agent(valid):
                    return state.look_at(valid, seen, found, environ, wait=False)
            except Busy:
                pass
            return await to_thread.run_sync(lambda: state.look_at(valid, seen, found, environ, wait=True))

        return House(
            tools=self.kernel.tools(seen.tools),
            catalog=catalog,
            look=look_now,
            operations=Operations(state, catalog, self.modules.operations(seen), self.kernel),
            recorder=self.recorder,
            workshop=self._workshop(seen, catalog, environ),
            around=together(self.hooks.around(catalog, seen.settings.hooks.gate), self.kernel.triggers),
        )

    def _workshop(self, seen: Seen, catalog: Catalog, environ: Mapping[str, str]) -> Workshop:
        state, settings = self.state, seen.settings

        def bind_first_use(approved: ApprovedCall) -> bool:
            skill, found = approved.authorized.valid.skill, approved.authorized.bytes
            listed = catalog.get(skill.name) if skill else None
            by = approved.authorized.valid.call.principal.id
            return listed is not None and found is not None and state.bind(listed, found, by=by)

        return Workshop(
            sandboxes=self.sandboxes,
            snapshot=state.bundles.open,
            bind=bind_first_use,
            disable=state.disable,
            host=lambda job: self.sandboxes.host(job, settings, self.inner),
            ground=seen.ground,
            packages=settings.python.packages,
            operator=settings.operator,
            environ=environ,
            running=self.running,
        )
