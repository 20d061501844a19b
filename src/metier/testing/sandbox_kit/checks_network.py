"""Behaviours 47 and 48: no network but what was granted, and no socket by any other name."""

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from metier.host.bridge import Bridge
from metier.host.http import Http
from metier.model.guarantee import Guarantee
from metier.model.job import Report
from metier.model.permission import PermissionSet
from metier.testing.sandbox_kit import granted_names, servers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench, KitFailure
from metier.testing.sandbox_kit.checks_files import place
from metier.testing.sandbox_kit.granted_names import Names


async def no_network_of_any_family(bench: Bench) -> None:
    with servers.on_loopback() as listening:
        async with anyio.create_task_group() as tasks:
            listening.serve(tasks)
            await bench.attack_outside("network", listening.params)
            bench.prove("tcp" in listening.reached, f"reached from outside: {listening.reached}")
            listening.reached.clear()
            await bench.attack_inside("network", listening.params)
            bench.expect("reached", not listening.reached, listening.reached)
            if Guarantee.NETWORK_BY_GRANT in bench.promises:
                report = await bench.run("network", listening.params, hosts=granted_names.GRANTS)
                did = bench.said(report).get("did", ())
                refused = did == []  # where the request itself is all there is
                bench.expect("granted_ran", report.ending == "returned" or refused, report)
                bench.expect("granted_reached", not listening.reached, listening.reached)
                bench.expect("granted_sees", not [each for each in did if each.startswith("sees_")], report)
            tasks.cancel_scope.cancel()
    if Guarantee.NETWORK_BY_GRANT in bench.promises:
        await _what_was_granted_and_no_more(bench)


async def _what_was_granted_and_no_more(bench: Bench) -> None:
    """The name that was granted answers. Another one does not, by whichever way it is asked for, and that is told."""
    names = bench.backend.names
    if names is None:
        raise KitFailure(
            "names: the backend promises a network by grant, and not where its egress looks names up"
        )
    ways = {name: granted_names.WAYS[name] for name in bench.guest.certain["by_grant"]}
    # Where a run is one request, each has a run of its own.
    parts = [ways] if bench.guest.has_processes else [{name: url} for name, url in ways.items()]
    async with names.served():
        for part in parts:
            said = await bench.control(
                "by_grant", _asked(names, part), environment={"http_proxy": names.proxy}
            )
            bench.prove(set(said["did"]) == set(part), said)
        names.looked_up.clear()
        for part in parts:
            closed = set(part) - granted_names.OPEN
            report = await _asks(bench, names, part, granted_names.GRANTS)
            did: list[str] = bench.said(report).get("did") or []
            for name in part:
                bench.expect(name, (name in did) == (name not in closed), report)
            bench.expect("denied", bool(report.denials) == bool(closed), report)
        beyond = {*names.looked_up, *names.dialled} - {granted_names.GRANTED}
        beyond.discard(granted_names.ADDRESSES[granted_names.GRANTED])
        bench.expect("looked_up", not beyond, beyond)
        names.looked_up.clear()
        for part in parts:
            report = await _asks(bench, names, part, ())
            bench.expect("ungranted", not bench.said(report).get("did"), report)
        bench.expect("ungranted_looked_up", not names.looked_up, names.looked_up)


def _asked(names: Names, ways: Mapping[str, str]) -> dict[str, Any]:
    return {"ways": dict(ways), "word": names.word}


async def _asks(bench: Bench, names: Names, ways: Mapping[str, str], hosts: Sequence[str]) -> Report:
    """A run with these grants. Who has no network of its own asks the host, which has the same egress."""
    granted = frozenset(hosts)
    http = Http(granted, lambda _name: None, names.make)
    async with Bridge("kit", "kit", PermissionSet(hosts=granted), {"http": http}) as bridge:
        return await bench.run("by_grant", _asked(names, ways), host=bridge, hosts=hosts)


async def no_unix_socket_by_name_or_by_path(bench: Bench) -> None:
    folder = bench.folder("s")
    with servers.by_name(folder) as listening:
        async with anyio.create_task_group() as tasks:
            listening.serve(tasks)
            asked = listening.params
            granted = (place(folder, writable=True),)
            report = await bench.attack("unix_sockets", asked, asked, places=granted)
            bench.expect("no_violation", not report.violations, report.violations)
            tasks.cancel_scope.cancel()


BEHAVIOURS = (
    behaviour(47, no_network_of_any_family, "LNX-12 JS-07", "no_network network_by_grant"),
    behaviour(48, no_unix_socket_by_name_or_by_path, "LNX-11", "no_network"),
)
