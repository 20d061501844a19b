"""An entry that is Metier itself is known as that, however it is started or reached; another is not taken for it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier.doors.cli.mcp_found import Found
from metier.doors.cli.mcp_ourselves import leads_to_us, origins_here, programs_here, starts_us
from metier.doors.cli.mcp_proposal import propose

OURS = [
    "metier mcp",
    "metier --config /x/metier.toml --root /skills mcp --as agent:a",
    "metier.exe mcp",
    "cmd /c metier mcp",
    "python3.12 -I -u -X utf8 -m metier --config c.toml mcp",
    "py -3.12 -m metier mcp",
    f"{sys.executable} -m metier mcp",
    f"{Path(sys.executable).with_name('metier')} mcp",
    "python -m metier mcp",
    "py -m metier mcp",
    "uvx metier mcp",
    "uvx metier[serve] mcp",
    "uvx metier[serve]==1.2 mcp",
    "uvx metier@latest mcp --as agent:a",
    "uvx --from metier[serve] metier mcp",
    "uv tool run --from metier[serve] metier mcp",
    "uv run metier mcp",
    "uv --directory /src/metier run --extra serve metier mcp",
    "uv run --directory /src/metier python -m metier mcp",
    "uv run --project /src/metier -m metier mcp",
    "uv run --with metier[serve] metier --config c.toml mcp",
    "pipx run --spec metier[serve] metier mcp",
    "pipx run metier mcp",
    "env METIER_HOME=/x metier mcp",
    "poetry run metier mcp",
    "pdm run python -m metier mcp",
    "uvx --python 3.12 --quiet --from=metier[serve]>=1 metier mcp",
]
OTHERS = [
    "metier",
    "metier call mcp",
    "metier2 mcp",
    "uvx --with metier other-server mcp",
    "uvx other-server --name metier",
    "uvx metier-tools mcp",
    "python -m metier_tools mcp",
    "python server.py metier mcp",
    "python -m other metier mcp",
    "node metier mcp",
    "npx metier mcp",
    "docker run metier mcp",
    "uvx metier",
    "/tmp/elsewhere/metier mcp",
    "./metier mcp",
    "C:\\Tools\\metier.exe mcp",
    "/tmp/elsewhere/python3 -m metier mcp",
    "cmd /c /tmp/elsewhere/metier mcp",
    "uvx other-server metier mcp",
    "uvx --from other-package metier mcp",
    "uvx --from=other-package metier mcp",
    "uvx --from metier other-server metier mcp",
    "uvx --with other-package metier mcp",
    "uvx --index https://example.org metier mcp",
    "uvx --some-flag-of-tomorrow metier mcp",
    "uvx --python /tmp/elsewhere/python3 metier mcp",
    "uvx git+https://example.org/metier mcp",
    "uvx metier@git+https://example.org/metier mcp",
    "uvx https://example.org/metier mcp",
    "uvx ./metier mcp",
    "uvx --from git+https://example.org/metier metier mcp",
    "pipx run --spec other-package metier mcp",
    "pipx install metier mcp",
    "uv run other.py metier mcp",
    "uv run python other.py -m metier mcp",
    "uv run --with other-package metier mcp",
    "uv run --script metier mcp",
    "uv run -- other metier mcp",
    "uv pip metier mcp",
    "python3 other.py -m metier mcp",
    "python3 -c pass -m metier mcp",
    "python3 - -m metier mcp",
    "python3 -Ic pass -m metier mcp",
    "python3 -X -m metier mcp",
    "env LD_PRELOAD=/tmp/x.so metier mcp",
    "env PATH=/tmp metier mcp",
    "env METIER_HOME=/x python3 other.py metier mcp",
    "env -S other metier mcp",
    "poetry run other metier mcp",
    "poetry metier mcp",
]


@pytest.mark.parametrize("line", OURS)
def test_metier_is_known_however_it_is_started(line: str) -> None:
    command, *args = line.split(" ")
    assert starts_us(command, args, {"METIER_HOME": "/x", "GITHUB_TOKEN": "t"}, here=programs_here())


@pytest.mark.parametrize("line", OTHERS)
def test_another_server_is_not_taken_for_metier(line: str) -> None:
    command, *args = line.split(" ")
    assert not starts_us(command, args, here=programs_here())


@pytest.mark.parametrize(
    "name", ["PATH", "LD_PRELOAD", "PYTHONPATH", "UV_INDEX_URL", "pip_index_url", "VIRTUAL_ENV"]
)
def test_a_variable_that_has_the_line_run_something_else_is_a_doubt(name: str) -> None:
    assert starts_us("metier", ["mcp"], {}) and not starts_us("metier", ["mcp"], {name: "/tmp/elsewhere"})


def test_an_entry_in_our_place_is_known_by_any_path_where_the_person_is_shown_it() -> None:
    assert starts_us("/opt/older/bin/metier", ["mcp"]) and not starts_us("/opt/older/bin/other", ["mcp"])


@pytest.mark.parametrize(
    "line",
    ["uvx other-server metier mcp", "/tmp/elsewhere/metier mcp", "python3 /tmp/other.py -m metier mcp"],
)
def test_a_strangers_program_is_never_called_metier_when_servers_are_taken_over(line: str) -> None:
    command, *args = line.split(" ")
    made = propose(
        Found(name="x", file="/x.json", fields={"command": command, "args": [*args]}), path="/usr/bin"
    )
    assert not made.ourselves


@pytest.mark.parametrize(
    ("command", "args"),
    [
        (None, []),
        ("metier", None),
        ("metier", "mcp"),
        (["metier"], ["mcp"]),
        ("", []),
        ("metier", [7, "mcp"]),
    ],
)
def test_what_is_no_line_is_not_metier(command: object, args: object) -> None:
    assert not starts_us(command, args)


ORIGINS = origins_here("192.0.2.7", 8765, ("https://metier.example.org", ""))
TOKEN = {"Authorization": "Bearer metier_0123_abc"}


@pytest.mark.parametrize(
    ("url", "headers", "ours"),
    [
        ("http://127.0.0.1:8765/mcp", {}, True),
        ("http://LOCALHOST:8765/mcp/", None, True),
        ("http://[::1]:8765/mcp", {}, True),
        ("http://192.0.2.7:8765/mcp", {}, True),
        ("https://metier.example.org/mcp", {}, True),
        ("https://metier.example.org:443/mcp", {}, True),
        ("http://127.0.0.1:9999/mcp", TOKEN, True),
        ("http://127.0.0.1:9999/mcp", {}, False),
        ("http://127.0.0.1:8765/other", TOKEN, False),
        ("https://other.example.org/mcp", TOKEN, False),
        ("http://metier.example.org/mcp", {}, False),
        ("http://[::1/mcp", {}, False),
        ("http://127.0.0.1:99999/mcp", {}, False),
        (7, {}, False),
    ],
)
def test_the_address_of_our_own_server_is_known(url: object, headers: object, ours: bool) -> None:
    assert leads_to_us(url, headers, ORIGINS) is ours


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "uvx", "args": ["--from", "metier[serve]", "metier", "mcp"]},
        {"command": "uv", "args": ["run", "--directory", "/src/metier", "metier", "mcp"]},
        {"type": "http", "url": "http://127.0.0.1:8765/mcp", "headers": TOKEN},
        {"type": "http", "url": "https://metier.example.org/mcp"},
    ],
)
def test_metier_is_passed_over_with_a_word_when_a_clients_servers_are_taken_over(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    machine = Machine(tmp_path)
    machine.state.mkdir(exist_ok=True)
    (machine.state / "metier.toml").write_text(
        '[serve]\norigins = ["https://metier.example.org"]\n', encoding="utf-8"
    )
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}), encoding="utf-8")
    done = machine.metier("mcp", "import", "claude-code", "--yes")
    assert "mine: that is Metier itself, and is passed over" in done.stdout
    assert not (machine.state / "skills").exists()


def test_a_server_elsewhere_is_still_proposed() -> None:
    fields: dict[str, Any] = {"type": "http", "url": "https://mcp.example.net/mcp"}
    made = propose(Found(name="far", file="/x.json", fields=fields), path="/usr/bin", origins=ORIGINS)
    assert not made.ourselves and made.manifest == {"url": "https://mcp.example.net/mcp"}
