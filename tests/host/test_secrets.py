"""One way to a secret's value; references instead of values everywhere else."""

import os
from pathlib import Path

import pytest

from machine import Machine
from metier.errors import ConfigError
from metier.host.secrets import MOST_BYTES, Secrets

VALUE = "s3cr3t-value-9f27"


def keep(folder: Path, data: bytes = VALUE.encode(), *, mode: int = 0o600) -> str:
    file = folder / "token"
    file.write_bytes(data)
    file.chmod(mode)
    return f"file://{file}"


def test_a_variable_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = Secrets({"token": "env://METIER_TEST_TOKEN"})
    assert secrets.reveal("token") is None
    assert "not set" in (secrets.problem("token") or "")
    monkeypatch.setenv("METIER_TEST_TOKEN", VALUE)
    assert secrets.reveal("token") == VALUE
    assert secrets.problem("token") is None


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"abc", "abc"), (b"abc\n", "abc"), (b"abc\r\n", "abc"), (b"abc\n\n", "abc\n"), (" ü ".encode(), " ü ")],
)
def test_a_file_is_read_without_its_last_line_end(tmp_path: Path, data: bytes, value: str) -> None:
    assert Secrets({"token": keep(tmp_path, data)}).reveal("token") == value


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_file_open_to_others_is_not_used(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    secrets = Secrets({"token": keep(tmp_path, mode=mode)})
    assert secrets.reveal("token") is None
    assert "chmod 600" in (secrets.problem("token") or "")
    assert "chmod 600" in caplog.text
    assert VALUE not in caplog.text


def test_links_folders_large_and_empty_files_are_not_used(tmp_path: Path) -> None:
    keep(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "token")
    (tmp_path / "folder").mkdir(mode=0o700)
    for name, data in (
        ("large", b"x" * (MOST_BYTES + 1)),
        ("empty", b""),
        ("newline", b"\n"),
        ("odd", b"\xff\xfe"),
    ):
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
    for name in ("link", "folder", "large", "empty", "newline", "odd", "missing"):
        secrets = Secrets({"token": f"file://{tmp_path / name}"})
        assert secrets.reveal("token") is None, name
        assert secrets.problem("token"), name
    os.link(tmp_path / "token", tmp_path / "second")
    assert Secrets({"token": f"file://{tmp_path / 'token'}"}).reveal("token") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    secrets = Secrets({"token": keep(tmp_path)})
    assert secrets.reveal("token") == VALUE
    os.chown(tmp_path / "token", 12_345, 12_345)
    assert secrets.reveal("token") is None
    assert "12345" in (secrets.problem("token") or "")


def test_only_granted_names_are_revealed(tmp_path: Path) -> None:
    secrets = Secrets({"token": keep(tmp_path)})
    assert secrets.only(frozenset({"token"}))("token") == VALUE
    assert secrets.only(frozenset({"other"}))("token") is None
    assert secrets.reveal("other") is None
    assert "[secrets]" in (secrets.problem("other") or "")


def test_a_value_is_never_shown(tmp_path: Path) -> None:
    secrets = Secrets({"token": keep(tmp_path)})
    secrets.reveal("token")
    assert VALUE not in repr(secrets) + str(vars(secrets))
    assert repr(secrets) == "Secrets(token)"


BAD = [
    "ghp_thisIsTheSecretItself",
    "env:TOKEN",
    "env://",
    "env://A B",
    "env://A=B",
    "file://relative/path",
    "file://",
    "file:///",
    "file:///a/../b",
    "file:///a//b",
    "file:///a\nb",
    "vault://thing",
    "ENV://TOKEN",
    "",
]


@pytest.mark.parametrize("reference", BAD)
def test_a_reference_of_another_form_is_an_error_that_does_not_repeat_it(reference: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Secrets({"token": reference})
    assert "'token'" in refused.value.message
    assert "env://" in refused.value.remedy
    written = reference.rpartition("://")[2]
    assert len(written) < 2 or written not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a b", "1a", "a/b", "ü", "x" * 200])
def test_a_name_that_is_none_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError):
        Secrets({name: "env://TOKEN"})


# The configuration


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.state.mkdir()
    return made


def test_the_operators_file_names_secrets(machine: Machine) -> None:
    text = '[secrets]\ntoken = "env://TOKEN"\nkey = "file:///srv/key"\n'
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")
    settings = machine.settings()
    assert settings.secrets == {"token": "env://TOKEN", "key": "file:///srv/key"}
    assert Secrets(settings.secrets).names == {"token", "key"}


@pytest.mark.parametrize("line", ['token = "ghp_thisIsTheSecretItself"', "token = 5", 'token = ["env://A"]'])
def test_a_secret_written_into_the_file_is_an_error_that_does_not_show_it(
    machine: Machine, line: str
) -> None:
    (machine.state / "metier.toml").write_text(f"[secrets]\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        machine.settings()
    assert "metier.toml" in refused.value.message
    assert "ghp_" not in str(refused.value)


def test_a_projects_file_may_not_name_secrets(machine: Machine) -> None:
    (machine.project / "metier.toml").write_text('[secrets]\ntoken = "env://HOME"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="secrets"):
        machine.settings()
