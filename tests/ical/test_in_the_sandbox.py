"""The calendar skill over CalDAV, from the call to a real Radicale: the command runs in its sandbox and goes out through ours."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import metier
from ical_desk import Radicale
from metier.model.outcome import Completed, Failed
from phone import Phone, amber_skill

pytestmark = pytest.mark.slow
DAY = "2026-02-22"
TEA = {"action": "create", "title": "Tea", "start": f"{DAY}T10:00", "end": f"{DAY}T11:00"}
LOOKUP = {"action": "lookup", "range": DAY}
ACTS: dict[str, Any] = {
    "capabilities": ["act"],
    "confirmation_required": False,
    "permissions": {"local_binaries": ["ical-query"]},
}


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    made = Phone(tmp_path, monkeypatch)
    bundled = Path(metier.__file__).with_name("bundled") / "calendar"
    files = {file.name: file.read_text(encoding="utf-8") for file in bundled.iterdir() if file.is_file()}
    # A server takes many requests, and a busy machine its time: how long is not what is tested here.
    patient = files["SKILL.md"].replace('"timeout_ms": 5000', '"timeout_ms": 50000')
    assert patient != files["SKILL.md"]
    made.install("calendar", {**files, "SKILL.md": patient})
    return made


def home(phone: Phone, server: Radicale) -> None:
    if server.scheme == "http":
        server.calendar("/op/home/", "Home")
    else:
        trusted = ssl.create_default_context(cafile=server.roots)
        made = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=20, context=trusted)
        with contextlib.closing(made):
            made.request("MKCALENDAR", "/op/home/", headers={"Authorization": "Basic b3A6Z2VoZWlt"})
            assert made.getresponse().status == 201
    for name, value in server.environ.items():
        if name != "SSL_CERT_FILE":
            phone.patch.setenv(name, value)


def message(phone: Phone, arguments: dict[str, Any]) -> str:
    outcome = phone.call("calendar_query", arguments)
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return str(outcome.value["message"])


def test_a_calendar_on_a_server_of_this_machine_is_read_and_added_to(
    phone: Phone, radicale: Callable[..., Radicale]
) -> None:
    home(phone, radicale())
    assert DAY in message(phone, LOOKUP), "nothing yet"
    message(phone, TEA)
    assert "Tea" in message(phone, LOOKUP)
    assert "[Home]" in message(phone, LOOKUP)
    assert not phone.calendar.exists()


def test_a_calendar_over_tls_with_an_authority_of_the_operators_own(
    phone: Phone, radicale: Callable[..., Radicale]
) -> None:
    server = radicale(tls=True)
    home(phone, server)
    outcome = phone.call("calendar_query", LOOKUP)
    assert isinstance(outcome, Failed), "nobody vouches for it yet"
    roots = server.environ["SSL_CERT_FILE"]
    phone.patch.setenv("SSL_CERT_FILE", roots)
    phone.configure(f'[binaries.programs.ical-query]\nenv = ["SSL_CERT_FILE"]\nreads = ["{roots}"]\n')
    message(phone, TEA)
    assert "Tea" in message(phone, LOOKUP)


def test_the_server_is_the_programs_alone_and_another_port_is_nobodys(
    phone: Phone, radicale: Callable[..., Radicale]
) -> None:
    server = radicale()
    home(phone, server)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
        handler = """
module.exports = async (params, context) => {
  const tried = [];
  for (const url of params.urls) {
    try { tried.push(String((await fetch(url)).status)); } catch { tried.push("refused"); }
  }
  return { success: true, message: tried.join(" ") };
};
"""
        urls = {"type": "object", "properties": {"urls": {"type": "array", "items": {"type": "string"}}}}
        phone.install("asks", amber_skill("asks", handler, urls, **ACTS))
        there = f"http://127.0.0.1:{server.port}/"
        outcome = phone.call("asks", {"urls": [there, f"http://127.0.0.1:{other.getsockname()[1]}/"]})
        assert isinstance(outcome, Completed), outcome
        assert isinstance(outcome.value, dict)
        assert outcome.value["message"] == "refused refused"
        phone.patch.setenv("METIER_CALDAV_URL", f"http://127.0.0.1:{other.getsockname()[1]}/")
        other.setblocking(False)
        phone.configure(
            f'[binaries.programs.ical-query]\nfile = "/usr/bin/curl"\nenv = ["METIER_CALDAV_URL"]\nhosts = ["{there[:-1]}"]\n'
        )
        if Path("/usr/bin/curl").exists():
            _no_other_port(phone, there, other)


def _no_other_port(phone: Phone, there: str, other: socket.socket) -> None:
    handler = """
module.exports = async (params, context) => {
  const tried = [];
  for (const url of params.urls) {
    try { tried.push(await context.exec(["ical-query", "-s", "-o", "/dev/null", "-w", "%{http_code}", url])); }
    catch (failure) { tried.push("failed"); }
  }
  return { success: true, message: tried.join(" ") };
};
"""
    urls = {"type": "object", "properties": {"urls": {"type": "array", "items": {"type": "string"}}}}
    phone.install("goes", amber_skill("goes", handler, urls, **ACTS))
    elsewhere = f"http://127.0.0.1:{other.getsockname()[1]}/"
    outcome = phone.call("goes", {"urls": [there, elsewhere]})
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    first, second = str(outcome.value["message"]).split(" ")
    assert first in ("200", "302", "401"), "its own server answers"
    assert second not in ("200", "302", "401")
    with pytest.raises(BlockingIOError):
        other.accept()
