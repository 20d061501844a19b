"""`metier mcp install`: the change is shown first, and nothing else of a client's file is lost, printed or guessed."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from machine import Machine
from metier.doors.cli import mcp_replace, metier
from metier.doors.cli.mcp_client_file import TABLES, entry, with_server
from metier.errors import ConfigError, StateError

PLACES = {
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "codex": ".codex/config.toml",
    "vscode": ".config/Code/User/mcp.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
}
OTHERS = {
    "theme": "dark",
    "numbers": [1, 2.5, 10**20],
    "text": "grüß dich",
    "mcpServers": {"other": {"command": "x", "env": {"TOKEN": "s3cr3t"}}},
}
CODEX = '# mine\nmodel = "o9"\n\n[mcp_servers.other]\ncommand = "x"\n\n[mcp_servers.other.env]\nTOKEN = "s3cr3t"\n'


def server(machine: Machine, client: str, name: str = "metier") -> dict[str, Any]:
    path = machine.home / PLACES[client]
    text = path.read_text(encoding="utf-8")
    read = tomllib.loads(text) if client == "codex" else json.loads(text)
    return read[TABLES[client]][name]


@pytest.mark.parametrize("client", sorted(TABLES))
def test_a_client_without_a_file_gets_one_with_a_command_that_starts(tmp_path: Path, client: str) -> None:
    machine = Machine(tmp_path)
    done = machine.metier("mcp", "install", client, "--yes")
    written = server(machine, client)
    assert done.stdout.index("server 'metier'") < done.stdout.index("✓ Written")
    assert os.path.isfile(written["command"]) and written["args"] == ["mcp"]
    assert (machine.home / PLACES[client]).stat().st_mode & 0o777 == 0o600
    assert "has it already" in machine.metier("mcp", "install", client, "--yes").stdout


def test_nothing_is_written_without_a_yes(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert "server 'metier'" in machine.metier("mcp", "install", "cursor", check=1, stdin="n\n").stdout
    assert "server 'metier'" in machine.metier("mcp", "install", "cursor", check=130, stdin="").stdout
    assert "server 'metier'" in machine.metier("mcp", "install", "cursor", "--show").stdout
    assert not (machine.home / ".cursor").exists()
    machine.metier("mcp", "install", "cursor", stdin="y\n")
    assert server(machine, "cursor")["args"] == ["mcp"]


@pytest.mark.parametrize("indent", [None, 2, 4, "\t"])
@pytest.mark.parametrize("escaped", [True, False])
def test_a_file_keeps_what_is_in_it_how_it_looks_and_a_copy(
    tmp_path: Path, indent: int | str | None, escaped: bool
) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["claude-code"]
    before = json.dumps(OTHERS, indent=indent, ensure_ascii=escaped) + "\n"
    path.write_text(before, encoding="utf-8")
    path.chmod(0o640)
    machine.metier("principals", "add", "agent:claude")
    done = machine.metier("mcp", "install", "claude-code", "--yes", "--as", "agent:claude")
    assert "s3cr3t" not in done.stdout + done.stderr and "laid out anew" not in done.stdout
    now = json.loads(path.read_text(encoding="utf-8"))
    ours = now["mcpServers"].pop("metier")
    assert ours["type"] == "stdio" and ours["args"] == ["mcp", "--as", "agent:claude"]
    assert now == OTHERS and list(now) == list(OTHERS)
    assert json.dumps(now, indent=indent, ensure_ascii=escaped) + "\n" == before
    assert path.stat().st_mode & 0o777 == 0o640
    copy = Path(f"{path}.before-metier")
    assert copy.read_text(encoding="utf-8") == before and copy.stat().st_mode & 0o777 == 0o600


def test_a_toml_file_is_added_to_and_its_comments_stay(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["codex"]
    path.parent.mkdir()
    path.write_text(CODEX, encoding="utf-8")
    done = machine.metier("mcp", "install", "codex", "--yes")
    text = path.read_text(encoding="utf-8")
    assert text.startswith(CODEX) and "s3cr3t" not in done.stdout
    assert tomllib.loads(text)["mcp_servers"]["metier"]["args"] == ["mcp"]


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{\n  // mine\n  "servers": {}\n}\n'),
        ("cursor", '{"mcpServers": {}, "mcpServers": {"a": {}}}'),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", "[]"),
        ("cursor", "not json"),
        ("cursor", '{"x": 1e400, "mcpServers": {}}'),
        ("cursor", '{"x": 1e-400}'),
        ("cursor", '{"x": 1e-99999999999999999999}'),
        ("cursor", '{"x": 1.10000000000000000001}'),
        ("cursor", '{"x": NaN}'),
        ("cursor", '{"x": -Infinity}'),
        ("codex", "mcp_servers = { other = { command = 'x' } }\n"),
        ("codex", "[mcp_servers.metier]\ncommand = 'else'\n"),
        ("codex", "not toml"),
        ("codex", "a" + ".a" * 6_000 + " = 1\n"),
        ("codex", "a = " + "[" * 5_000),
    ],
)
def test_what_cannot_be_changed_safely_is_left_and_the_person_is_told_what_to_write(
    tmp_path: Path, client: str, text: str
) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES[client]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    done = machine.metier("mcp", "install", client, "--yes", check=5)
    assert "by hand" in done.stderr and '"mcp"' in done.stderr and "Traceback" not in done.stderr
    assert path.read_text(encoding="utf-8") == text
    assert os.listdir(path.parent) == [path.name] or client == "claude-code"


def test_an_entry_of_ours_that_is_older_is_shown_and_replaced(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.metier("mcp", "install", "cursor", "--yes")
    machine.metier("principals", "add", "agent:x")
    done = machine.metier("mcp", "install", "cursor", "--yes", "--as", "agent:x")
    assert "-  ]" not in done.stdout and '+    "--as"' in done.stdout.replace("  +", "+")
    assert server(machine, "cursor")["args"] == ["mcp", "--as", "agent:x"]


def test_the_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    real = tmp_path / "dotfiles" / "mcp.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    (machine.home / ".cursor").mkdir()
    (machine.home / ".cursor/mcp.json").symlink_to(real)
    assert str(real) in machine.metier("mcp", "install", "cursor", "--yes").stdout
    assert (machine.home / ".cursor/mcp.json").is_symlink() and server(machine, "cursor")


def test_the_words_that_name_this_configuration_go_along(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "own.toml").write_text("", encoding="utf-8")
    machine.metier(
        "--config", str(tmp_path / "own.toml"), "--root", str(tmp_path), "mcp", "install", "cursor", "-y"
    )
    assert server(machine, "cursor")["args"] == [
        "--config",
        str(tmp_path / "own.toml"),
        "--root",
        str(tmp_path),
        "mcp",
    ]


def test_a_name_with_odd_characters_stays_one_name() -> None:
    made = entry("codex", "/bin/metier", ["mcp"], {"METIER_HOME": '/a "b"'})
    changed = with_server("codex", "", 'my "server".x', made)
    assert changed is not None
    assert tomllib.loads(changed.text)["mcp_servers"]['my "server".x'] == made
    with pytest.raises(ConfigError):
        with_server("codex", changed.text, 'my "server".x', {**made, "command": "/other"})


OURS = {"command": "/opt/bin/metier", "args": ["mcp"], "env": {"METIER_TOKEN": "metier_s3cr3t"}}
STRANGERS = [
    {"command": "npx", "args": ["github-mcp"], "env": {"GITHUB_TOKEN": "ghp_s3cr3t"}},
    {"command": "npx", "args": ["mcp", "--token", "ghp_s3cr3t", "/home/ada/metier"]},
    {"command": "/opt/bin/metier", "args": ["serve", "s3cr3t"]},
    {"url": "https://example.com/mcp?key=s3cr3t"},
    "s3cr3t",
]


@pytest.mark.parametrize("stranger", STRANGERS, ids=range(len(STRANGERS)))
@pytest.mark.parametrize("how", ["--yes", "--show"])
def test_a_server_of_that_name_that_is_not_ours_is_neither_shown_nor_replaced(
    tmp_path: Path, stranger: Any, how: str
) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["cursor"]
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"github": stranger}}), encoding="utf-8")
    before = path.read_bytes()
    done = machine.metier("mcp", "install", "cursor", "--name", "github", how, check=5)
    assert "not Metier" in done.stderr and "--name" in done.stderr
    assert "s3cr3t" not in done.stdout + done.stderr
    assert path.read_bytes() == before and os.listdir(path.parent) == [path.name]


def test_of_an_older_entry_of_ours_no_value_of_a_variable_is_shown(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["cursor"]
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": {"metier": OURS}}), encoding="utf-8")
    done = machine.metier("mcp", "install", "cursor", "--yes")
    assert "s3cr3t" not in done.stdout + done.stderr and '"METIER_TOKEN": "…"' in done.stdout
    assert server(machine, "cursor")["args"] == ["mcp"]


@pytest.mark.parametrize("text", ['{"x":   "\\ud800"}', '{"x": "\\ud800", "y": "grüß"}'])
def test_half_a_character_that_is_spelled_out_stays_so(tmp_path: Path, text: str) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["cursor"]
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    machine.metier("mcp", "install", "cursor", "--yes")
    now = json.loads(path.read_text(encoding="utf-8"))
    assert now.pop("mcpServers")["metier"]["args"] == ["mcp"]
    assert now == json.loads(text)


def test_numbers_that_stay_what_they_are_are_no_reason_to_leave_a_file() -> None:
    text = '{"a": 1E2, "b": 0.1, "c": -0.0, "d": 123456789012345678901234567890, "e": 1e308}'
    changed = with_server("cursor", text, "metier", entry("cursor", "/bin/metier", ["mcp"], {}))
    assert changed is not None
    now = json.loads(changed.text)
    del now["mcpServers"]
    assert now == json.loads(text)


def test_when_it_cannot_be_written_nothing_is_left_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text("{}", encoding="utf-8")

    def broken(*given: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mcp_replace.os, "replace", broken)
    with pytest.raises(StateError, match="No space left"):
        mcp_replace.replace(str(path), "[]", "{}")
    assert os.listdir(tmp_path) == ["mcp.json"] and path.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("who", ["agent:nobody", "human:ada", "human:me\x1b[31m", "", "*"])
def test_nobody_is_written_down_whom_the_server_would_not_serve(tmp_path: Path, who: str) -> None:
    machine = Machine(tmp_path)
    machine.metier("principals", "add", "human:ada", "--role", "operator")
    done = machine.metier("mcp", "install", "cursor", "--yes", "--as", who, check=5)
    assert "\x1b" not in done.stderr and "metier principals" in done.stderr
    assert not (machine.home / ".cursor").exists()


def test_six_installs_at_once_leave_six_servers(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    path = machine.home / PLACES["claude-code"]
    path.write_text(json.dumps(OTHERS), encoding="utf-8")
    names = [f"metier{number}" for number in range(6)]
    program = str(Path(sys.executable).with_name("metier"))
    running = [
        subprocess.Popen(
            [program, "mcp", "install", "claude-code", "--yes", "--name", name],
            cwd=machine.project,
            env={**machine.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    said = [each.communicate(timeout=90)[0] for each in running]
    assert all("✓ Written" in each for each in said)
    now = json.loads(path.read_text(encoding="utf-8"))
    assert set(now["mcpServers"]) == {"other", *names}
    assert {**now, "mcpServers": OTHERS["mcpServers"]} == OTHERS
    assert not [each for each in os.listdir(machine.home) if each.startswith(".metier-")]


class Client:
    """A client that writes its own file while somebody installs, each time before ours is put in its place."""

    def __init__(self, path: Path, *texts: str) -> None:
        self.path = path
        self.texts = list(texts)

    def write(self) -> None:
        if self.texts:
            self.path.write_text(self.texts.pop(0), encoding="utf-8")


def meanwhile(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Have `act` done after the look and directly before the next one."""
    keep = mcp_replace._keep

    def kept(path: str, before: str) -> str:
        act()
        return keep(path, before)

    monkeypatch.setattr(mcp_replace, "_keep", kept)


def install(path: Path, *args: str) -> Result:
    return CliRunner().invoke(metier, ["mcp", "install", "cursor", "--file", str(path), "--yes", *args])


def test_what_a_client_writes_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(os.path.realpath(tmp_path)) / "mcp.json"
    path.write_text('{"theme": "dark"}', encoding="utf-8")
    client = Client(path, '{"theme": "light"}', '{"theme": "light", "mcpServers": {"new": {"command": "x"}}}')
    meanwhile(monkeypatch, client.write)
    done = install(path)
    assert done.exit_code == 0, done.output
    now = json.loads(path.read_text(encoding="utf-8"))
    assert now["theme"] == "light" and set(now["mcpServers"]) == {"new", "metier"}
    kept = sorted(each for each in os.listdir(path.parent) if "before-metier" in each)
    assert len(kept) == 1 and "new" in (path.parent / kept[0]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"metier": {"command": "/other/metier", "args": ["mcp", "--as", "agent:x"]}}}',
        '{"mcpServers": {"metier": {"command": "stranger", "args": []}}}',
        "// a comment\n{}",
        "no JSON",
    ],
)
def test_what_would_be_another_change_than_was_shown_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    path = Path(os.path.realpath(tmp_path)) / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    meanwhile(monkeypatch, Client(path, text).write)
    done = install(path)
    assert done.exit_code != 0
    assert path.read_text(encoding="utf-8") == text
    assert os.listdir(path.parent) == ["mcp.json"]


def test_who_writes_without_end_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(os.path.realpath(tmp_path)) / "mcp.json"
    path.write_text("{}", encoding="utf-8")
    meanwhile(monkeypatch, Client(path, *(f'{{"a": {number}}}' for number in range(50))).write)
    done = install(path)
    assert isinstance(done.exception, StateError) and "changed meanwhile" in str(done.exception)
    assert "metier" not in path.read_text(encoding="utf-8")


def test_a_folder_that_somebody_else_has_locked_is_waited_for_and_then_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(os.path.realpath(tmp_path)) / "mcp.json"
    monkeypatch.setattr(mcp_replace, "_WAIT_SECONDS", 0.2)
    with mcp_replace.only_one(str(path)):
        done = install(path)
    assert isinstance(done.exception, StateError) and "locked" in str(done.exception)
    assert not path.exists()
    assert install(path).exit_code == 0
