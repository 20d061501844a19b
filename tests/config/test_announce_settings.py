"""`[announce]`: where approvers are told. What nobody could tell from a forgery is not posted."""

import pytest

from machine import Machine
from metier.errors import ConfigError


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("machine"))


def written(machine: Machine, text: str) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")


def test_without_a_word_the_terminal_is_told_and_nothing_is_posted(machine: Machine) -> None:
    announce = machine.settings().announce
    assert (announce.webhook, announce.terminal, announce.batch_seconds, announce.remind_minutes) == (
        "",
        True,
        3.0,
        5.0,
    )


def test_everything_can_be_said(machine: Machine) -> None:
    written(
        machine,
        '[announce]\nwebhook = "https://hooks.example.com/metier?room=1"\nsecret = "announce_key"\nterminal = false\n'
        "batch_seconds = 10\nremind_minutes = 0\n",
    )
    announce = machine.settings().announce
    assert (announce.webhook, announce.secret) == ("https://hooks.example.com/metier?room=1", "announce_key")
    assert (announce.terminal, announce.batch_seconds, announce.remind_minutes) == (False, 10, 0)


@pytest.mark.parametrize(
    "text",
    [
        'webhook = "https://hooks.example.com/metier"',
        'webhook = "ftp://hooks.example.com/"\nsecret = "k"',
        'webhook = "https://user:pass@hooks.example.com/"\nsecret = "k"',
        'webhook = "https://hooks.example.com/"\nsecret = "not a name"',
        "batch_seconds = 61",
        "remind_minutes = -1",
        'webhok = "x"',
    ],
)
def test_what_cannot_be_is_refused_and_said(machine: Machine, text: str) -> None:
    written(machine, f"[announce]\n{text}\n")
    with pytest.raises(ConfigError) as error:
        machine.settings()
    assert "pass@" not in str(error.value)


def test_a_project_has_no_say_in_where_approvers_are_told(machine: Machine) -> None:
    (machine.project / "metier.toml").write_text("[announce]\nterminal = false\n", encoding="utf-8")
    with pytest.raises(ConfigError):
        machine.settings()
