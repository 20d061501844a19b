"""What `metier mcp import` makes of the lines of other clients: what is fetched and from where, what is read, and what is not taken over."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from mcp_kit import ODD
from metier.doors.cli.mcp_found import Found
from metier.doors.cli.mcp_proposal import Proposal, propose


def proposed(path: str = "/usr/bin:/bin", state: str = "", **fields: Any) -> Proposal:
    return propose(Found(name="srv", file="/x.json", fields=fields), path=path, state=state)


def of(line: list[str], **fields: Any) -> Proposal:
    return proposed(command=line[0], args=line[1:], **fields)


@pytest.mark.parametrize(
    ("line", "fetched"),
    [
        (
            ["uvx", "--index-url", "https://pypi.corp.example/simple", "corp-mcp"],
            "uv tool install --index-url https://pypi.corp.example/simple corp-mcp",
        ),
        (
            ["uvx", "--index=https://pypi.corp.example/simple", "corp-mcp"],
            "uv tool install --index https://pypi.corp.example/simple corp-mcp",
        ),
        (
            ["npx", "--registry=https://npm.corp.example", "-y", "corp-mcp"],
            "npm install -g --registry https://npm.corp.example corp-mcp",
        ),
        (
            ["npx", "--registry", "https://npm.corp.example", "-y", "corp-mcp"],
            "npm install -g --registry https://npm.corp.example corp-mcp",
        ),
        (
            ["uvx", "--with", "mcp[cli]", "--from", "pkg", "corp-mcp"],
            "uv tool install --with 'mcp[cli]' pkg",
        ),
        (["npx", "-p", "one", "-p", "two", "corp-mcp"], "npm install -g one two"),
        (["uv", "tool", "run", "corp-mcp"], "uv tool install corp-mcp"),
        (["pnpm", "dlx", "corp-mcp"], "npm install -g corp-mcp"),
        (["yarn", "dlx", "corp-mcp"], "npm install -g corp-mcp"),
        (["bun", "x", "corp-mcp"], "npm install -g corp-mcp"),
        (["npm", "exec", "-y", "--", "corp-mcp"], "npm install -g corp-mcp"),
        (["cmd", "/c", "npx", "-y", "corp-mcp"], "npm install -g corp-mcp"),
    ],
)
def test_what_is_fetched_is_what_the_line_means_and_from_where_it_says(line: list[str], fetched: str) -> None:
    found = of(line)
    assert (found.problem, found.commands, found.manifest["command"]) == ("", (fetched,), "corp-mcp")


@pytest.mark.parametrize(
    ("line", "env"),
    [
        (["npx", "-c", "foo --bar"], {}),
        (["npx", "--userconfig", "/x", "corp-mcp"], {}),
        (["uvx", "--env-file", "/x", "corp-mcp"], {}),
        (["uvx", "--config-file=/x", "corp-mcp"], {}),
        (["uvx", "--index-url"], {}),
        (["npx", "-y", "--", "-g"], {}),
        (["npx", "-y", "x; rm -rf ~"], {}),
        (["uvx", "--from", "pkg", "python", "-m", "x"], {}),
        (["npm", "run", "start"], {}),
        (["npx", "-y", "corp-mcp"], {"npm_config_registry": "https://npm.corp.example"}),
        (["uvx", "corp-mcp"], {"UV_EXTRA_INDEX_URL": "https://pypi.corp.example"}),
        (["uvx", "corp-mcp"], {"UV_CONFIG_FILE": "/x"}),
        (["uv", "--offline", "run", "x.py"], {}),
        (["uv", "run", "x.py"], {}),
    ],
)
def test_a_line_of_which_that_cannot_be_told_is_refused(line: list[str], env: dict[str, str]) -> None:
    found = of(line, env=env)
    assert found.problem
    assert found.commands == ()


def test_the_program_of_a_package_that_npm_installed_is_asked_of_the_package(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "node_modules" / "@playwright" / "mcp"
    package.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (package / "package.json").write_text('{"bin": {"mcp-server-playwright": "cli.js"}}', encoding="utf-8")
    found = of(["npx", "@playwright/mcp@latest"], path=str(tmp_path / "bin"))
    assert found.manifest["command"] == "mcp-server-playwright"


def test_nothing_is_written_before_what_a_runner_would_fetch_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    servers = {"mcpServers": {"time": {"command": "uvx", "args": ["time-mcp"]}}}
    (machine.project / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")
    done = machine.metier("mcp", "import", "claude-code", "--yes", check=1)
    assert "uv tool install time-mcp" in done.stderr
    assert "run this import again" in done.stderr
    assert not (machine.skills / "time").exists()
    # Then it is, in an environment of its own, and that is what it may read.
    venv = machine.home / "tools" / "time-mcp"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("", encoding="utf-8")
    (venv / "bin" / "time-mcp").write_text(f"#!{venv}/bin/python\n", encoding="utf-8")
    (venv / "bin" / "time-mcp").chmod(0o755)
    machine.bin.mkdir(exist_ok=True)
    (machine.bin / "time-mcp").symlink_to(venv / "bin" / "time-mcp")
    machine.metier("mcp", "import", "claude-code", "--yes")
    about = json.loads((machine.skills / "time" / "mcp_server.json").read_text(encoding="utf-8"))
    assert about["permissions"]["reads"] == [os.path.realpath(venv)]


@pytest.mark.parametrize("off", [{"disabled": True}, {"enabled": False}])
def test_a_server_that_is_switched_off_there_is_not_taken_over(off: dict[str, Any]) -> None:
    assert "switched off" in proposed(command="serve", **off).problem
    on: dict[str, Any] = {key: not value for key, value in off.items()}
    assert proposed(command="serve", **on).problem == ""


def test_what_is_not_taken_over_is_said() -> None:
    found = proposed(command="serve", envFile="x", disabled_tools=["a"], env_vars=["GITHUB_TOKEN", "LD_X"])
    assert any("disabled_tools, envFile" in note for note in found.notes)
    assert found.manifest["permissions"] == {"env": ["GITHUB_TOKEN"]}
    far = proposed(url="https://mcp.example.com/mcp", env_http_headers={"X-T": "VARIABLE"}, headersHelper="x")
    assert far.manifest["headers"] == {"X-T": "{{secret:srv.X-T}}"}
    assert far.secrets == {}
    assert any("headersHelper" in note for note in far.notes)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:3845/mcp", "http://localhost:1/", "https://10.1.2.3/mcp", "http://[::1]/mcp"]
)
def test_a_server_that_no_skill_may_reach_is_not_taken_over(url: str) -> None:
    assert "this machine or in a private network" in proposed(url=url).problem


@pytest.mark.parametrize("word", ["${workspaceFolder:app}/x", "${config:foo.bar}", "${command:x.y}"])
def test_what_only_the_client_can_fill_in_is_not_written_as_it_stands(word: str) -> None:
    assert "only that client fills in" in of(["serve", word]).problem
    found = proposed(command="serve", env={"A": word})
    assert found.manifest["env"] == {"A": "{{secret:srv.A}}"}


def test_a_script_may_read_the_project_it_is_a_part_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    script = tmp_path / "weather" / "build" / "index.js"
    script.parent.mkdir(parents=True)
    script.write_text("", encoding="utf-8")
    data = tmp_path / "data"
    data.mkdir()
    found = of(["node", str(script), str(data)])
    assert f'reads = ["{data}", "{script.parent}"]' in found.configuration
    (tmp_path / "weather" / "package.json").write_text("{}", encoding="utf-8")
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    found = of(["node", "index.js", str(data)], cwd=str(script.parent))
    assert f'before = ["{script}", "{data}"]' in found.configuration
    assert f'reads = ["{data}", "{tmp_path}/weather"]' in found.configuration


def test_the_home_and_metiers_own_folder_are_never_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    state = tmp_path / "srv" / "metier"
    for each in (home, state):
        each.mkdir(parents=True)
        (each / "server.py").write_text("", encoding="utf-8")
        (each / "pyproject.toml").write_text("", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, state):
        found = of(["/usr/bin/python3", f"{folder}/server.py"], state=str(state))
        assert f'reads = ["{folder}/server.py"]' in found.configuration
        assert any("a folder of its own" in note for note in found.notes)
    for folder in (home, tmp_path, tmp_path / "srv", Path("/")):
        found = of(["serve", str(folder)], state=str(state))
        assert "permissions" not in found.manifest
        assert any("not proposed for reading" in note for note in found.notes)


def test_uv_run_is_what_the_environment_of_its_project_has(tmp_path: Path) -> None:
    line = ["uv", "--directory", str(tmp_path), "run", "weather.py"]
    assert "uv sync" in of(line).problem
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / ".venv" / "pyvenv.cfg").write_text("", encoding="utf-8")
    packages = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (programs / "python").symlink_to("/usr/bin/python3")
    (tmp_path / "weather.py").write_text("", encoding="utf-8")
    found = of(line)
    assert found.problem == ""
    assert f'file = "{programs}/python"' in found.configuration
    assert f'before = ["{tmp_path}/weather.py"]' in found.configuration
    assert f'PYTHONPATH = "{packages}:{tmp_path}"' in found.configuration
    assert "uv sync" in of(["uv", "run", "--directory", str(tmp_path), "weather"]).problem


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


def test_a_linked_file_with_comments_is_read_as_its_client_reads_it(machine: Machine) -> None:
    kept = machine.home / "dotfiles.json"
    text = '{ // mine\n "servers": {"a": {"command": "serve", "args": ["//x", "/*", ",]"], /* b */ },},\n}'
    kept.write_text(text, encoding="utf-8")
    folder = machine.project / ".vscode"
    folder.mkdir()
    (folder / "mcp.json").symlink_to(kept)
    machine.metier("mcp", "import", "vscode", "--yes")
    about = json.loads((machine.skills / "a" / "mcp_server.json").read_text(encoding="utf-8"))
    assert about["args"] == ["//x", "/*", ",]"]


def test_of_one_name_the_one_nearest_to_the_project_is_taken(machine: Machine) -> None:
    def server(command: str) -> dict[str, Any]:
        return {"mcpServers": {"gh": {"command": command}}}

    own = {**server("of-the-user"), "projects": {str(machine.project): server("of-the-user-here")}}
    (machine.home / ".claude.json").write_text(json.dumps(own), encoding="utf-8")
    (machine.project / ".mcp.json").write_text(json.dumps(server("of-the-project")), encoding="utf-8")
    results = machine.json("mcp", "import", "claude-code", "--yes", "--json", check=1)
    assert [bool(each["problem"]) for each in results] == [False, True, True]
    assert "of-the-user-here" in (machine.skills / "gh" / "mcp_server.json").read_text(encoding="utf-8")


def test_only_a_server_that_is_not_there_is_a_problem(machine: Machine) -> None:
    (machine.project / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "x"}}}', encoding="utf-8")
    done = machine.metier("mcp", "import", "claude-code", "--yes", "--only", "nope", check=1)
    assert "no server of this name" in done.stderr
    assert not (machine.skills / "a").exists()


@pytest.mark.parametrize("started", ["weather.py", "weather"])
def test_a_server_of_a_python_project_is_trusted_with_the_lines_that_are_shown(
    started: str, machine: Machine
) -> None:
    project = machine.home / "weather"
    project.mkdir(parents=True)
    venv = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    packages = next((venv / "lib").glob("python*/site-packages"))
    (packages / "its_dependency.py").write_text("", encoding="utf-8")
    source = f"import its_dependency\n{ODD.read_text(encoding='utf-8')}"
    (project / "weather.py").write_text(source, encoding="utf-8")
    (venv / "bin" / "weather").write_text(f"#!{venv}/bin/python\n{source}", encoding="utf-8")
    (venv / "bin" / "weather").chmod(0o755)
    server = {"command": "uv", "args": ["--directory", str(project), "run", started, "well"]}
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"w": server}}), encoding="utf-8")
    (done,) = machine.json("mcp", "import", "claude-code", "--yes", "--json")
    machine.state.mkdir(exist_ok=True)
    (machine.state / "metier.toml").write_text(done["configuration"] + "\n", encoding="utf-8")
    assert "w/echo" in machine.metier("skills", "trust", "--yes", "w").stdout
