"""`exec` and the operator's own programs: called by name or by an accepted spelling, run with what they alone are given."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from metier.host.exec import Exec
from metier.model.entry import Command, ScriptHandler
from metier.model.guarantee import Guarantee, needed
from metier.model.job import Job, Place, ProgramGrant, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.skill import Limits

ENTRY = ScriptHandler(path="handler.js", language="javascript")
GRANT = ProgramGrant(
    file="/opt/python/bin/python3",
    spellings=frozenset({"/usr/local/bin/ical-query"}),
    before=("-I", "-c", "main()"),
    places=(Place(path="/opt/python"), Place(path="/srv/calendar", writable=True)),
    hosts=frozenset({"dav.example"}),
    environment={"METIER_CALENDAR_FOLDER": "/srv/calendar", "TZ": "Europe/Berlin"},
)


def job(**more: Any) -> Job:
    given: dict[str, Any] = {
        "call_id": "call_1",
        "skill": "calendar",
        "entry": ENTRY,
        "arguments": {},
        "places": (Place(path="/srv/data"),),
        "environment": {"TZ": "UTC", "OWN": "1"},
        "binaries": {"ls": "/usr/bin/ls"},
        "programs": {"ical-query": GRANT},
        "permissions": PermissionSet(
            binaries=frozenset({"ical-query", "ls"}), reads=frozenset({"/srv/data"})
        ),
        "limits": Limits(timeout=10.0),
        "needs": needed(ENTRY, network=False),
    }
    return Job(**{**given, **more})


def ask(*argv: str, **more: Any) -> tuple[Answered | NotAnswered, list[Job]]:
    jobs: list[Job] = []

    async def run(nested: Job) -> Report:
        jobs.append(nested)
        return Report(ending="returned", stdout="tea\n", exit_code=0)

    return anyio.run(Exec(job(**more), run).answer, {"argv": list(argv)}), jobs


@pytest.mark.parametrize("called", ["ical-query", "/usr/local/bin/ical-query"])
def test_the_operators_program_is_called_by_its_name_or_an_accepted_spelling(called: str) -> None:
    answer, (nested,) = ask(called, "today", "--calendar", "x")
    assert answer == Answered(value="tea\n")
    line = ("/opt/python/bin/python3", "-I", "-c", "main()", "today", "--calendar", "x")
    assert nested.entry == Command(argv=line), "by its file: the name is the operator's"
    assert nested.binaries == {"ical-query": "/opt/python/bin/python3"}


@pytest.mark.parametrize(
    "called",
    [
        "/tmp/x/ical-query",
        "/usr/local/bin/../bin/ical-query",
        "/usr/local/bin//ical-query",
        "usr/local/bin/ical-query",
        "./ical-query",
        "/ical-query",
        "ICAL-QUERY",
        "/usr/local/bin/ical-query ",
        "/opt/python/bin/python3",
        "python3",
        "",
    ],
)
def test_cmd_37_what_only_ends_like_the_name_or_is_its_bare_file_is_not_the_program(called: str) -> None:
    answer, jobs = ask(called or "x", "-c", "import os")
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", "violation")
    assert jobs == []


def test_a_file_of_that_name_in_another_folder_is_refused_even_when_it_is_there(tmp_path: Path) -> None:
    there = tmp_path / "ical-query"
    there.write_text("#!/bin/sh\n")
    there.chmod(0o755)
    answer, jobs = ask(str(there))
    assert isinstance(answer, NotAnswered)
    assert jobs == []
    own = ProgramGrant(file=str(there.resolve()))
    answer, (nested,) = ask(str(there.resolve()), programs={"ical-query": own})
    assert answer == Answered(value="tea\n"), "where the name stands for that very file, its path is as good"
    assert nested.entry == Command(argv=(str(there.resolve()),))


def test_a_file_with_arguments_of_the_operators_own_is_never_called_without_them(tmp_path: Path) -> None:
    there = tmp_path / "tool"
    there.write_text("")
    bare, fixed = ProgramGrant(file=str(there)), ProgramGrant(file=str(there), before=("--safe",))
    assert len(ask(str(there), programs={"ical-query": bare})[1]) == 1
    assert ask(str(there), programs={"ical-query": fixed})[1] == []


def test_only_the_run_of_the_program_has_what_the_program_is_given() -> None:
    _, (nested,) = ask("ical-query")
    assert nested.places == (
        Place(path="/opt/python"),
        Place(path="/srv/calendar", writable=True),
        Place(path="/srv/data"),
    )
    assert nested.environment == {
        "OWN": "1",
        "TZ": "Europe/Berlin",
        "METIER_CALENDAR_FOLDER": "/srv/calendar",
    }
    assert nested.permissions.hosts == {"dav.example"}
    assert nested.permissions.binaries == {"ical-query"}
    assert nested.programs == {}, "and it can start no further one"
    assert nested.host is None
    _, (other,) = ask("ls")
    outer = job()
    assert (other.places, other.environment) == (outer.places, outer.environment)
    assert other.permissions.hosts == frozenset()


def test_a_program_with_hosts_needs_a_way_out_that_is_held_to_them() -> None:
    _, (nested,) = ask("ical-query", needs=needed(ENTRY, network=False) | {Guarantee.MEMORY_EXACT})
    assert Guarantee.NETWORK_BY_GRANT in nested.needs
    assert Guarantee.NO_NETWORK not in nested.needs
    assert {Guarantee.MEMORY_EXACT, Guarantee.VIOLATIONS_SEEN} <= nested.needs
    _, (other,) = ask("ls")
    assert Guarantee.NO_NETWORK in other.needs


def test_a_service_of_the_operators_own_is_the_programs_and_leaves_no_room_for_the_skills_hosts() -> None:
    own = structs.replace(
        GRANT, hosts=frozenset({"http://127.0.0.1:5232"}), own_origin="http://127.0.0.1:5232"
    )
    granted = PermissionSet(binaries=frozenset({"ical-query", "ls"}), hosts=frozenset({"api.example"}))
    more: dict[str, Any] = {"permissions": granted, "needs": needed(ENTRY, network=True)}
    _, (nested,) = ask("ical-query", programs={"ical-query": own}, **more)
    assert nested.own_origin == "http://127.0.0.1:5232"
    assert nested.permissions.hosts == own.hosts
    _, (other,) = ask("ls", programs={"ical-query": own}, **more)
    assert other.own_origin == ""
    assert other.permissions.hosts == {"api.example"}
    _, (usual,) = ask("ical-query", **more)
    assert usual.permissions.hosts == {"api.example", "dav.example"}


def test_a_program_that_was_not_granted_to_this_call_is_refused() -> None:
    only = PermissionSet(binaries=frozenset({"ls"}))
    answer, jobs = ask("ical-query", permissions=only)
    assert isinstance(answer, NotAnswered)
    assert answer.name == "PermissionDenied"
    assert jobs == []
    assert len(ask("ls", permissions=only)[1]) == 1


def test_a_place_that_both_have_is_as_writable_as_the_more_trusted_one_has_it() -> None:
    _, (nested,) = ask("ical-query", places=(Place(path="/srv/calendar"),))
    assert Place(path="/srv/calendar", writable=True) in nested.places
    assert Place(path="/srv/calendar") not in nested.places


def test_a_program_that_is_granted_and_not_installed_is_said_to_be_missing() -> None:
    answer, jobs = ask("ical-query", programs={})
    assert isinstance(answer, NotAnswered)
    assert answer.name == "NotFound"
    assert jobs == []
