"""`[binaries.programs]`: only the operator's file says which file a name is, and Metier's own calendar is there without it."""

import os
import sys
from pathlib import Path

import pytest

import metier.config.programs as programs
from machine import Machine
from metier.config.ground import ground_of
from metier.config.programs import ICAL_QUERY, with_own
from metier.config.settings import BinarySettings, Settings
from metier.errors import ConfigError
from metier.model.program import OperatorProgram

TOOL = '[binaries.programs.tool]\nfile = "/usr/bin/true"\n'


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def written(machine: Machine, toml: str) -> Settings:
    machine.state.mkdir(exist_ok=True)
    path = machine.state / "metier.toml"
    path.write_text(toml, encoding="utf-8")
    path.chmod(0o600)
    return machine.settings()


def own(more: OperatorProgram | None = None, **environ: str) -> OperatorProgram:
    pytest.importorskip("recurring_ical_events")
    given = BinarySettings(programs={ICAL_QUERY: more} if more else {})
    return with_own(given, environ).programs[ICAL_QUERY]


def test_everything_about_a_program_can_be_said(machine: Machine) -> None:
    found = written(
        machine,
        """
[binaries.programs.tool]
file = "~/bin/tool"
spellings = ["/opt/tool"]
before = ["--safe"]
reads = ["~/notes"]
writes = ["{workspace}/notes"]
hosts = ["dav.example:8443"]
env = ["LEVEL"]
environment = { MODE = "plain" }
""",
    ).binaries.programs["tool"]
    home = os.path.expanduser("~")
    assert found == OperatorProgram(
        file=f"{home}/bin/tool",
        spellings=frozenset({"/opt/tool"}),
        before=("--safe",),
        reads=frozenset({f"{home}/notes"}),
        writes=frozenset({"{workspace}/notes"}),
        hosts=frozenset({"dav.example:8443"}),
        env=frozenset({"LEVEL"}),
        environment={"MODE": "plain"},
    )


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[binaries.programs.tool]\n", "file is missing"),
        ('[binaries.programs.tool]\nfile = "tool"\n', "no plain absolute path"),
        ('[binaries.programs.tool]\nfile = "/usr/bin/../bin/true"\n', "no plain absolute path"),
        ('[binaries.programs."to/ol"]\nfile = "/usr/bin/true"\n', "matching regex"),
        (TOOL + 'colour = "red"\n', "unknown key 'colour'"),
        (TOOL + 'file_ = "x"\n', "did you mean 'file'"),
        (TOOL + 'spellings = [""]\n', "can be no argument"),
        (TOOL + 'before = ["a\\u0000b"]\n', "can be no argument"),
        (TOOL + 'reads = ["notes"]\n', "must be absolute"),
        (TOOL + 'writes = ["/srv/../etc"]\n', "not in normal form"),
        (TOOL + 'writes = ["{baseDir}/x"]\n', "a program belongs to none"),
        (TOOL + 'hosts = ["*"]\n', "none means all"),
        (TOOL + 'env = ["A=B"]\n', "no plain name"),
        (TOOL + 'env = ["LD_PRELOAD"]\n', "what else to load"),
        (TOOL + 'environment = { PATH = "/tmp" }\n', "set by the sandbox itself"),
        (TOOL + 'env = ["A"]\nenvironment = { A = "1" }\n', "both passed on and given a value"),
        (TOOL + 'environment = { DAV_PASSWORD = "x" }\n', "sounds like a secret"),
        (
            TOOL + 'spellings = ["/o"]\n[binaries.programs.b]\nfile = "/bin/b"\nspellings = ["/o"]\n',
            "already stands",
        ),
        (TOOL + '[binaries.programs.b]\nfile = "/bin/b"\nspellings = ["tool"]\n', "already stands"),
    ],
)
def test_what_could_mean_two_things_or_nothing_is_refused(machine: Machine, toml: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        written(machine, toml)
    assert "tool" in written(machine, TOOL).binaries.programs, "the same without it is fine"


def test_a_value_of_a_refused_variable_is_not_repeated(machine: Machine) -> None:
    with pytest.raises(ConfigError) as refused:
        written(machine, TOOL + 'environment = { DAV_PASSWORD = "hunter2" }\n')
    assert "hunter2" not in str(refused.value)


def test_a_projects_file_cannot_name_a_program(machine: Machine) -> None:
    (machine.project / "metier.toml").write_text(TOOL, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"may only restrict|unknown key"):
        machine.settings()
    (machine.project / "metier.toml").unlink()
    assert written(machine, TOOL).binaries.programs.keys() >= {"tool"}, "the operator's own can"


def test_the_calendar_is_there_without_a_word_and_may_touch_its_folder_only() -> None:
    found = own()
    assert found.file == os.path.realpath(sys.executable)
    assert found.spellings == {"/usr/local/bin/ical-query"}
    assert found.before[:4] == ("-I", "-S", "-B", "-c")
    assert found.writes == {"{workspace}/calendar"}
    assert found.hosts == frozenset()
    assert found.environment["METIER_CALENDAR_FOLDER"] == "{workspace}/calendar"
    assert "METIER_CALDAV_PASSWORD" in found.env
    home = os.path.realpath(os.path.expanduser("~"))
    assert not {home, "/", "/tmp"} & found.reads


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://dav.example.com/remote.php/dav/", "dav.example.com"),
        ("https://dav.example.com:8443/x", "dav.example.com:8443"),
        ("http://dav.example.com/x", "http://dav.example.com"),
        ("https://[2001:db8::1]:444/", "[2001:db8::1]:444"),
    ],
)
def test_a_calendar_server_is_the_one_place_the_calendar_reaches(url: str, host: str) -> None:
    assert own(METIER_CALDAV_URL=url).hosts == {host}
    said = OperatorProgram(environment={"METIER_CALDAV_URL": url})
    assert own(said, METIER_CALDAV_URL="https://other.example/").hosts == {host}, "the file's word counts"


@pytest.mark.parametrize(
    "url", ["", "dav.example.com", "ftp://dav.example.com/", "https://[bad", "https://x:99999/"]
)
def test_what_is_no_address_opens_nothing(url: str) -> None:
    assert own(METIER_CALDAV_URL=url).hosts == frozenset()


def test_a_time_zone_that_the_operator_names_is_passed_on_and_else_the_machines_own_is_told() -> None:
    assert "METIER_TIMEZONE" not in own(TZ="Europe/Berlin").environment
    assert "METIER_TIMEZONE" in own(TZ="Europe/Berlin").env
    said = OperatorProgram(environment={"METIER_TIMEZONE": "Asia/Tokyo"})
    assert own(said, TZ="Europe/Berlin").environment["METIER_TIMEZONE"] == "Asia/Tokyo"
    if "/zoneinfo/" in os.path.realpath("/etc/localtime"):
        assert own().environment["METIER_TIMEZONE"]


def test_a_table_without_a_file_adds_to_the_calendar_and_one_with_a_file_replaces_it(
    machine: Machine,
) -> None:
    added = written(
        machine,
        '[binaries.programs.ical-query]\nreads = ["/srv/ics"]\nenv = ["SSL_CERT_FILE"]\n'
        'environment = { METIER_CALENDAR_FILE = "/srv/ics/me.ics" }\n',
    ).binaries.programs[ICAL_QUERY]
    usual = own()
    assert added.file == usual.file
    assert added.before == usual.before
    assert added.reads == usual.reads | {"/srv/ics"}
    assert added.env >= {"SSL_CERT_FILE", "METIER_CALDAV_URL"}
    assert added.environment["METIER_CALENDAR_FILE"] == "/srv/ics/me.ics"
    replaced = written(machine, '[binaries.programs.ical-query]\nfile = "/opt/ical-query"\n')
    assert replaced.binaries.programs == {ICAL_QUERY: OperatorProgram(file="/opt/ical-query")}


def test_a_spelling_that_the_operator_gave_away_is_not_the_calendars(machine: Machine) -> None:
    found = written(machine, TOOL + 'spellings = ["/usr/local/bin/ical-query"]\n').binaries.programs
    assert found[ICAL_QUERY].spellings == frozenset()
    assert found["tool"].spellings == {"/usr/local/bin/ical-query"}


def test_without_its_packages_there_is_no_calendar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_PACKAGES", ("no_such_package",))
    assert with_own(BinarySettings(), {}).programs == {}
    added = BinarySettings(programs={ICAL_QUERY: OperatorProgram(reads=frozenset({"/srv"}))})
    assert with_own(added, {}).programs == {}, "and nothing to add to"


def test_a_shell_that_the_operator_says_the_file_of_is_one_he_named(machine: Machine) -> None:
    settings = written(machine, '[binaries.programs.bash]\nfile = "/bin/bash"\n')
    assert ground_of(settings).interpreters == {"bash"}
    assert "bash" in ground_of(settings).programs
    assert ground_of(written(machine, "")).interpreters == frozenset()
