"""`[gateway]` and `[operator]`: the operator's file decides, then the environment, and never a project."""

from pathlib import Path

import pytest

from machine import Machine
from metier.config.load import load
from metier.config.settings import Settings
from metier.errors import ConfigError

ENVIRONMENT = {
    "OPENCLAW_GATEWAY_URL": "http://127.0.0.1:1111",
    "OPENCLAW_GATEWAY_TOKEN": "not-for-the-settings",
    "OPERATOR_NAME": "Ada",
    "OPERATOR_TELEGRAM_ID": "4711",
}
FILE = """
[gateway]
url = "http://127.0.0.1:2222"
token = "file:///home/me/.keys/gateway"
model = "openclaw:voice"

[operator]
name = "Grace"
telegram_id = 815
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.state.mkdir()
    return made


def read(machine: Machine, text: str = "", **environ: str) -> Settings:
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")
    return load(project=str(machine.project), environ={**machine.environ, **environ})


def test_without_a_word_there_is_no_gateway_and_nobody_to_write_to(machine: Machine) -> None:
    settings = read(machine)
    assert (settings.gateway.url, settings.operator.name, settings.operator.telegram_id) == ("", "", "")
    assert settings.warnings == ()


def test_the_environment_names_gateway_and_operator(machine: Machine) -> None:
    settings = read(machine, **ENVIRONMENT)
    assert settings.gateway.url == "http://127.0.0.1:1111"
    assert settings.gateway.token == "env://OPENCLAW_GATEWAY_TOKEN"
    assert (settings.operator.name, settings.operator.telegram_id) == ("Ada", "4711")
    assert "not-for-the-settings" not in repr(settings)


def test_the_file_wins_over_the_environment(machine: Machine) -> None:
    settings = read(machine, FILE, **ENVIRONMENT)
    assert settings.gateway.url == "http://127.0.0.1:2222"
    assert settings.gateway.token == "file:///home/me/.keys/gateway"
    assert settings.gateway.model == "openclaw:voice"
    assert (settings.operator.name, settings.operator.telegram_id) == ("Grace", "815")


def test_a_part_that_the_file_leaves_out_comes_from_the_environment(machine: Machine) -> None:
    settings = read(machine, '[operator]\nname = "Grace"', **ENVIRONMENT)
    assert (settings.operator.name, settings.operator.telegram_id) == ("Grace", "4711")


@pytest.mark.parametrize(
    "text",
    [
        '[gateway]\nurl = "127.0.0.1:18789"',
        '[gateway]\nurl = "ws://127.0.0.1:18789"',
        '[gateway]\nurl = "http://me@127.0.0.1:18789"',
        '[gateway]\nurl = "http://127.0.0.1:18789?x=1"',
        '[gateway]\nurl = "http://127.0.0.1:1"\ntoken = "the-token-itself"',
        '[gateway]\nurl = "http://127.0.0.1:1"\nmodel = ""',
        '[gateway]\nurl = "http://127.0.0.1:1"\nmodel = "a\\nb"',
        "[gateway]\nrecipient = 1",
        "[operator]\ntelegram_id = 0",
        "[operator]\ntelegram_id = true",
        '[operator]\ntelegram_id = "@ada"',
        '[operator]\ntelegram_id = "4711 and 666"',
        '[operator]\nname = "a\\nb"',
        '[operator]\nname = "a\\u202eb"',
        f'[operator]\nname = "{"x" * 101}"',
    ],
)
def test_what_cannot_be_is_an_error_in_the_file(machine: Machine, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(machine, text)
    assert "the-token-itself" not in str(caught.value)


def test_a_token_of_the_file_goes_only_where_the_file_says(machine: Machine) -> None:
    with pytest.raises(ConfigError, match="belongs to one place"):
        read(machine, '[gateway]\ntoken = "env://OTHER"', **ENVIRONMENT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("OPENCLAW_GATEWAY_URL", "ws://127.0.0.1:1"), ("OPENCLAW_GATEWAY_URL", "http://a b")),
        *(("OPERATOR_TELEGRAM_ID", "666; 4711"), ("OPERATOR_TELEGRAM_ID", "٤٧")),
        *(("OPERATOR_NAME", "a\x1b[31mb"), ("OPERATOR_NAME", "x" * 101)),
    ],
)
def test_a_variable_that_cannot_be_is_said_and_not_used(machine: Machine, name: str, value: str) -> None:
    settings = read(machine, **{name: value})
    assert (settings.gateway.url, settings.operator.name, settings.operator.telegram_id) == ("", "", "")
    assert len(settings.warnings) == 1
    assert name in settings.warnings[0]


@pytest.mark.parametrize("table", ["gateway", "operator"])
def test_a_project_says_neither(machine: Machine, table: str) -> None:
    (machine.project / "metier.toml").write_text(f"[{table}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="unknown key"):
        read(machine)
