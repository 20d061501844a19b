"""The store of secrets: sealed with age, opened for the moment it takes, and never shown."""

import hmac
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.config.gateway import GatewaySettings
from metier.errors import ConfigError, StateError
from metier.host import keyring as our_keyring
from metier.host.age import Identity
from metier.host.gateway_client import GatewayClient
from metier.host.sealed import MOST_BYTES, Sealed
from metier.host.secrets import Secrets
from metier.kernel.capability import Capability
from metier.kernel.secrets import wrapped_for
from metier.model.ports import NotAnswered
from metier.record.secret_arguments import holds_secrets, kept_arguments
from metier.testing import FakeGateway
from settings_kit import MASK, Desk

VALUE = "s3cr3t-value-9f27"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    made = Desk(home)
    yield made
    made.close()


# The files


def test_a_secret_is_kept_sealed_and_opened_again(home: Path) -> None:
    sealed = Sealed(str(home))
    assert (sealed.names(), sealed.read("TOKEN")) == ([], None)
    assert not home.exists()  # who only looks makes nothing
    sealed.write("TOKEN", VALUE)
    sealed.write("b.other-1", "ünïcode\nlines ")
    assert sealed.names() == ["TOKEN", "b.other-1"]
    again = Sealed(str(home))
    assert (again.read("TOKEN"), again.read("b.other-1")) == (VALUE, "ünïcode\nlines ")
    for each in home.rglob("*"):
        if each.is_file():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
            assert VALUE.encode() not in each.read_bytes()
        else:
            assert stat.S_IMODE(each.stat().st_mode) == 0o700, each
    assert (home / "secrets" / "TOKEN.age").read_bytes().startswith(b"age-encryption.org/v1")


def test_a_secret_that_is_removed_is_gone(home: Path) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    assert sealed.remove("TOKEN") is True
    assert (sealed.remove("TOKEN"), sealed.read("TOKEN"), sealed.names()) == (False, None, [])


@pytest.mark.parametrize(
    "name", ["", "a/b", "../x", ".hidden", "1a", "a b", "x" * 129, "ü", "a\n", "skills/x"]
)
def test_a_name_that_is_none_is_refused_and_leads_nowhere(home: Path, name: str) -> None:
    sealed = Sealed(str(home))
    with pytest.raises(ValueError, match="name"):
        sealed.write(name, VALUE)
    assert sealed.read(name) is None
    assert sealed.remove(name) is False


@pytest.mark.parametrize("value", ["", "x" * (MOST_BYTES + 1), "a\0b", "a\ud800b"])
def test_a_value_that_is_none_is_refused_and_not_repeated(home: Path, value: str) -> None:
    with pytest.raises(ValueError, match="the secret") as refused:
        Sealed(str(home)).write("TOKEN", value)
    assert len(str(refused.value)) < 100


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o602])
@pytest.mark.parametrize("which", ["keys/secrets.age", "secrets/TOKEN.age"])
def test_sec_08_a_file_that_others_can_read_is_not_used(home: Path, which: str, mode: int) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    (home / which).chmod(mode)
    with pytest.raises(StateError, match="others can read"):
        sealed.read("TOKEN")
    (home / which).chmod(0o600)
    assert sealed.read("TOKEN") == VALUE


@pytest.mark.parametrize("which", ["keys/secrets.age", "secrets/TOKEN.age"])
def test_sec_08_a_file_with_a_second_name_or_behind_a_link_is_not_used(home: Path, which: str) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    os.link(home / which, home / "second")
    with pytest.raises(StateError, match="second name"):
        sealed.read("TOKEN")
    (home / "second").unlink()
    (home / which).rename(home / "real")
    (home / which).symlink_to(home / "real")
    with pytest.raises(StateError):
        sealed.read("TOKEN")


def test_a_changed_file_and_one_of_another_key_are_refused(home: Path, tmp_path: Path) -> None:
    sealed, other = Sealed(str(home)), Sealed(str(tmp_path / "other"))
    sealed.write("TOKEN", VALUE)
    file = home / "secrets" / "TOKEN.age"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StateError, match="another key"):
        sealed.read("TOKEN")
    other.write("TOKEN", VALUE)
    file.write_bytes((tmp_path / "other" / "secrets" / "TOKEN.age").read_bytes())
    with pytest.raises(StateError, match="another key"):
        sealed.read("TOKEN")


def test_one_secret_put_in_the_place_of_another_is_refused(home: Path) -> None:
    sealed = Sealed(str(home))
    sealed.write("HARMLESS", VALUE)
    sealed.write("TOKEN", "the-real-one")
    os.replace(home / "secrets" / "HARMLESS.age", home / "secrets" / "TOKEN.age")
    with pytest.raises(StateError, match="for something else"):
        sealed.read("TOKEN")


def test_a_lost_key_is_said_and_no_new_one_hides_it(home: Path) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    key = home / "keys" / "secrets.age"
    kept = key.read_bytes()
    key.unlink()
    for act in (lambda: sealed.read("TOKEN"), lambda: sealed.write("OTHER", VALUE)):
        with pytest.raises(StateError, match=r"keys/secrets\.age"):
            act()
    assert not key.exists()
    key.write_bytes(kept)
    key.chmod(0o600)
    assert sealed.read("TOKEN") == VALUE
    key.write_bytes(b"nonsense\n")
    with pytest.raises(StateError, match="no age identity"):
        sealed.read("TOKEN")


def test_many_who_come_first_at_once_make_one_key(home: Path) -> None:
    ready = threading.Barrier(8)

    def work(number: int) -> None:
        ready.wait()
        Sealed(str(home)).write(f"N{number}", f"{VALUE}-{number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sealed = Sealed(str(home))
    assert [sealed.read(f"N{number}") for number in range(8)] == [f"{VALUE}-{number}" for number in range(8)]
    assert sorted(each.name for each in (home / "keys").iterdir()) == ["secrets.age"]


def test_the_key_file_is_one_that_age_itself_reads(home: Path) -> None:
    Sealed(str(home)).write("TOKEN", VALUE)
    lines = (home / "keys" / "secrets.age").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("# ")
    assert Identity(lines[1]).public in lines[0]
    opened = Identity(lines[1]).open((home / "secrets" / "TOKEN.age").read_bytes())
    assert opened is not None
    assert VALUE.encode() in opened


# References


def test_what_was_kept_is_known_by_its_name_and_by_a_reference(home: Path) -> None:
    Sealed(str(home)).write("KEPT", VALUE)
    secrets = Secrets({"token": "sealed://KEPT", "gone": "sealed://GONE"}, str(home))
    assert secrets.names == {"token", "gone", "KEPT"}
    assert (secrets.reveal("token"), secrets.reveal("KEPT")) == (VALUE, VALUE)
    assert secrets.reveal("gone") is None
    assert "metier secrets set GONE" in (secrets.problem("gone") or "")
    assert secrets.only(frozenset({"token"}))("KEPT") is None
    assert Secrets({"token": "sealed://KEPT"}).reveal("token") is None
    assert VALUE not in repr(secrets) + str(vars(secrets))


def test_what_the_operator_wrote_counts_before_what_was_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_TEST_TOKEN", "from-the-variable")
    Sealed(str(home)).write("token", VALUE)
    assert Secrets({"token": "env://METIER_TEST_TOKEN"}, str(home)).reveal("token") == "from-the-variable"


@pytest.mark.parametrize(
    "reference",
    ["sealed://", "sealed://a/b", "sealed://../x", "keyring://", "keyring://a", "keyring://a/", "keyring://a/b/c", "keyring://a b/c"],
)  # fmt: skip
def test_a_reference_to_the_store_or_the_keyring_has_one_form(reference: str) -> None:
    with pytest.raises(ConfigError):
        Secrets({"token": reference})


def test_sec_11_a_secret_that_is_changed_or_removed_counts_at_once(home: Path) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    secrets = Secrets({}, str(home))
    assert secrets.reveal("TOKEN") == VALUE
    sealed.write("TOKEN", "rotated")
    assert secrets.reveal("TOKEN") == "rotated"
    sealed.remove("TOKEN")
    assert secrets.reveal("TOKEN") is None


def test_the_gateway_may_keep_its_token_in_the_store(home: Path) -> None:
    with FakeGateway() as gateway:
        Sealed(str(home)).write("GATEWAY", gateway.token)
        settings = GatewaySettings(url=gateway.url, token="sealed://GATEWAY")

        async def ask(where: str) -> str | NotAnswered:
            client = GatewayClient(settings, seconds=10.0, home=where)
            try:
                return await client.ask("Say something.", "hello")
            finally:
                await client.aclose()

        assert isinstance(anyio.run(ask, str(home)), str)
        assert isinstance(anyio.run(ask, ""), NotAnswered)


# The keyring


class Kept:
    """A keyring of the system's, as far as it can be had without a desktop."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        self.kept[service, name] = value


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Kept:
    import keyring

    monkeypatch.setattr(Kept, "__module__", "keyring.backends.SecretService")
    made = Kept()
    monkeypatch.setattr(keyring, "get_keyring", lambda: made)
    return made


def test_a_secret_may_lie_in_the_keyring_of_the_system(system: Kept) -> None:
    secrets = Secrets({"token": "keyring://metier/token"})
    assert secrets.reveal("token") is None
    assert "keyring set metier token" in (secrets.problem("token") or "")
    system.set_password("metier", "token", VALUE)
    assert secrets.reveal("token") == VALUE


class Plain(Kept):
    """A file that anybody can read, as some packages bring it along."""


def test_without_a_keyring_that_is_said_and_nothing_plain_is_used(
    system: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    import keyring
    from keyring.backends import chainer, fail, null

    plain = Plain()
    for each in (plain, system):
        each.set_password("metier", "token", VALUE)
    secrets = Secrets({"token": "keyring://metier/token"})
    chain: Any = type("ChainerBackend", (), {"backends": [plain, system], "__module__": chainer.__name__})()
    for found in (fail.Keyring(), null.Keyring(), plain, chain):
        monkeypatch.setattr(keyring, "get_keyring", lambda found=found: found)
        assert secrets.reveal("token") is None
        assert "no keyring of the operating system" in (secrets.problem("token") or "")
    chain.backends = [system, plain]
    assert secrets.reveal("token") == VALUE


def test_a_machine_without_a_session_has_no_keyring_and_says_what_to_do() -> None:
    code = "from metier.host.secrets import Secrets\nprint(Secrets({'t': 'keyring://metier/t'}).problem('t'))"
    plain = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], env=plain, capture_output=True, text=True, timeout=60)
    assert "metier secrets set" in done.stdout, done.stderr
    assert "Traceback" not in done.stderr


def test_a_keyring_that_breaks_is_said_by_its_kind_alone(
    system: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    from keyring.errors import KeyringLocked

    def locked(*_given: str) -> str:
        raise KeyringLocked(f"the collection holding {VALUE} is locked")

    monkeypatch.setattr(system, "get_password", locked)
    with pytest.raises(StateError, match="it is locked") as refused:
        our_keyring.read_keyring("metier/token")
    assert VALUE not in str(refused.value)


def test_the_key_of_the_store_may_lie_in_the_keyring(home: Path, system: Kept) -> None:
    sealed = Sealed(str(home))
    assert sealed.key_place() is None
    sealed.write("TOKEN", VALUE)
    assert sealed.key_place() == "file"
    sealed.move_key("keyring")
    assert sealed.key_place() == "keyring"
    assert "AGE-SECRET-KEY" not in (home / "keys" / "secrets.age").read_text(encoding="utf-8")
    assert sealed.read("TOKEN") == VALUE
    sealed.write("OTHER", "another")
    kept = dict(system.kept)
    system.kept.clear()
    with pytest.raises(StateError, match="nothing for 'secrets-"):
        sealed.read("TOKEN")
    system.kept |= kept
    sealed.move_key("file")
    system.kept.clear()
    assert (sealed.read("TOKEN"), sealed.read("OTHER")) == (VALUE, "another")


def test_a_key_that_the_keyring_does_not_take_stays_in_its_file(
    home: Path, system: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealed = Sealed(str(home))
    sealed.write("TOKEN", VALUE)
    monkeypatch.setattr(system, "set_password", lambda *_given: None)
    with pytest.raises(StateError):
        sealed.move_key("keyring")
    assert (sealed.key_place(), sealed.read("TOKEN")) == ("file", VALUE)


# The module


def test_secrets_are_set_listed_and_removed_by_operations_of_the_operator(desk: Desk) -> None:
    def given(name: str, value: str = VALUE) -> dict[str, Any]:
        return {"name": name, "sealed": desk.sealed.wrapped(value, wrapped_for(name))}

    assert desk.ask("secrets.set", **given("TOKEN")) == {"ok": True, "name": "TOKEN", "replaced": False}
    assert desk.ask("secrets.set", **given("TOKEN", "rotated"))["replaced"] is True
    assert desk.sealed.read("TOKEN") == "rotated"
    desk.references = {"FILED": "file:///srv/key", "TOKEN": "env://TOKEN"}
    assert desk.ask("secrets.list") == {
        "ok": True,
        "secrets": [{"name": "FILED", "kind": "file"}, {"name": "TOKEN", "kind": "env"}],
    }
    assert "env://" in desk.ask("secrets.set", **given("TOKEN"))["note"]
    assert desk.ask("secrets.remove", name="TOKEN") == {"ok": True, "name": "TOKEN"}
    assert "no secret" in desk.refusal("secrets.remove", name="TOKEN").message
    for bad in (
        {"name": "TOKEN", "sealed": VALUE},
        {"name": "OTHER", "sealed": given("TOKEN")["sealed"]},
        {"name": "../TOKEN", "sealed": given("TOKEN")["sealed"]},
        given("TOKEN", ""),
    ):
        error = desk.refusal("secrets.set", **bad)
        assert error.code == "E_SETTINGS_BAD_PARAMS"
        assert VALUE not in error.message
    assert desk.sealed.names() == []


def test_no_operation_about_secrets_is_for_a_model_or_a_skill_and_none_gives_one_back(desk: Desk) -> None:
    tools = {name: tool for name, tool in desk.modules.tools.items() if name.startswith("secrets.")}
    assert sorted(tools) == ["secrets.key", "secrets.list", "secrets.remove", "secrets.set"]
    assert {tool.audience for tool in tools.values()} == {"operator"}
    assert {tool.permission for tool in tools.values()} == {"settings:write"}
    assert desk.modules.tools["settings.set_skill"].privileged


def test_sec_02_what_is_secret_by_its_operation_is_masked_whatever_it_is_called() -> None:
    patch = {"greeting": "hello-secret", "deep": {"list": ["other-secret"], "none": None}, "n": 5}
    kept = kept_arguments("settings.set_skill", {"skill_id": "bot", "patch": patch})
    assert kept == {
        "skill_id": "bot",
        "patch": {"greeting": MASK, "deep": {"list": MASK, "none": None}, "n": MASK},
    }
    assert kept_arguments("secrets.set", {"name": "T", "sealed": "x", "more": 1}) == {
        "name": "T",
        "sealed": MASK,
        "more": MASK,
    }
    assert kept_arguments("settings.set_skill", "a-secret") == MASK
    assert kept_arguments("channels.list", {"patch": "x"}) == {"patch": "x"}
    assert holds_secrets("settings.set_skill")
    assert not holds_secrets("settings.get_skill")


# SEC-10


def test_sec_10_the_capability_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return left == right

    monkeypatch.setattr(hmac, "compare_digest", compare)
    one, other = Capability(), Capability()
    assert (one.admits(one), one.admits(other)) == (True, False)
    assert [len(left) for left, _ in compared] == [32, 32]
