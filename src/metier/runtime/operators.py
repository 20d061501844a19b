"""What the operations for operators need of a runtime: to ask an MCP server, and to know which hooks a skill brings."""

from collections.abc import Callable, Mapping

from anyio import to_thread

from metier.catalog.bundle import BundleStore, Snapshot
from metier.catalog.catalog import Catalog
from metier.catalog.listed import Listed
from metier.catalog.probed import Probed
from metier.config.settings import Settings
from metier.gate.explain import Explained
from metier.kernel.operators import Ask, Explain
from metier.model.digest import Json
from metier.model.outcome import Refused
from metier.model.skill import Skill, Tool
from metier.pipeline import House
from metier.runtime.state import Seen, State


def asked_server(
    house: Callable[[], House], catalog: Callable[[], Catalog], settings: Callable[[], Settings]
) -> Ask:
    """Asks a server in this runtime. It is a call of its own, judged like any other."""

    async def ask_it(listed: Listed, digest: str) -> Probed | str:
        from metier.runtime.probing import ask  # seldom needed

        now = catalog().get(listed.name)
        if now is None or now.folder != listed.folder:
            return "another skill has its name"
        return await ask(now, house(), BundleStore(settings().bundles), digest)

    return ask_it


def explained_here(
    state: State, seen: Callable[[], Seen], operations: Callable[[], Mapping[str, Tool]]
) -> Explain:
    """Explains calls with what this runtime has loaded."""

    async def explain_it(
        tool: str, arguments: Json, who: str, level: str | None, exactly: bool
    ) -> Explained | Refused:
        from metier.runtime.explained_in import explained_in  # seldom needed

        known = operations()
        return await to_thread.run_sync(
            lambda: explained_in(
                state,
                seen(),
                tool,
                arguments,
                principal=who,
                level=level,
                exactly=exactly,
                operations=lambda _name: known,
            )
        )

    return explain_it


def hooks_shown(skill: Skill, snapshot: Snapshot) -> list[dict[str, Json]]:
    """What of a skill is run by itself, whenever something happens. Blocking."""
    if not any(file.path.startswith("hooks/") for file in snapshot.files):
        return []
    from metier.hooks.installed import hooks_in  # few skills have any

    return [
        {"file": hook.file, "events": [*sorted(hook.events)], "problem": hook.problem}
        for hook in hooks_in(skill, snapshot)
    ]
