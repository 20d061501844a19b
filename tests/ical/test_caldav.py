"""The same command over CalDAV, against a real Radicale; and servers that do not mean well."""

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ical_desk import Desk, Radicale
from loopback import Answering, Asked, Listener, reply
from metier.ical import caldav_server

Started = Callable[..., Radicale]
SERIES = """BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//someone//else//EN
BEGIN:VEVENT
UID:series
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20260105T100000
DTEND;TZID=Europe/Berlin:20260105T110000
RRULE:FREQ=DAILY
EXDATE;TZID=Europe/Berlin:20260327T100000
SUMMARY:Standup
END:VEVENT
BEGIN:VEVENT
UID:series
DTSTAMP:20260101T000000Z
RECURRENCE-ID;TZID=Europe/Berlin:20260328T100000
DTSTART;TZID=Europe/Berlin:20260328T150000
DTEND;TZID=Europe/Berlin:20260328T160000
SUMMARY:Standup moved
END:VEVENT
END:VCALENDAR
""".replace("\n", "\r\n")


@pytest.fixture
def home(desk: Desk, radicale: Started) -> Radicale:
    server = radicale()
    server.calendar("/op/home/", "Home")
    desk.environ = server.environ
    return server


@pytest.mark.slow
def test_what_is_added_is_on_the_server_and_listed_from_there(desk: Desk, home: Radicale) -> None:
    assert desk.run("2026-03-28").out == ""
    said = desk.run(
        "add", "Tea, with; Öl", "2026-03-28T15:00", "2026-03-28T16:00", "--location=Kitchen", "--notes=a\nb"
    )
    assert (said.code, said.out) == (0, "Added Sat 2026-03-28 15:00–16:00: Tea, with; Öl (Kitchen) [Home]\n")
    assert desk.run("2026-03-28").out == said.out.removeprefix("Added ")
    assert desk.run("add", "Trip", "2026-03-28", "2026-03-30").code == 0
    assert [line.split(": ")[1] for line in desk.run("2026-03-29").out.splitlines()] == ["Trip [Home]"]
    assert desk.run("2026-03-30").out == ""


@pytest.mark.slow
def test_a_series_with_exceptions_is_worked_out_as_in_a_file(desk: Desk, home: Radicale) -> None:
    assert home.request("PUT", "/op/home/series.ics", SERIES, **{"Content-Type": "text/calendar"}) == 201
    shown = {day: desk.listed(f"2026-03-{day}") for day in ("26", "27", "28", "29")}
    assert shown == {
        "26": ["Thu 2026-03-26 10:00–11:00: Standup [Home]"],
        "27": [],
        "28": ["Sat 2026-03-28 15:00–16:00: Standup moved [Home]"],
        "29": ["Sun 2026-03-29 10:00–11:00: Standup [Home]"],
    }


@pytest.mark.slow
def test_a_calendar_is_chosen_by_name_or_by_address_and_never_guessed(desk: Desk, home: Radicale) -> None:
    home.calendar("/op/work/", "Work")
    assert "several calendars" in desk.refused("today").message
    assert "several calendars" in desk.refused("add", "x", "2026-03-28", "2026-03-29").message
    assert isinstance(desk.ask("add", "Tea", "2026-03-28", "2026-03-29", "--calendar", "work"), str)
    assert desk.listed("today", "--calendar", "Work") == ["Sat 2026-03-28, all day: Tea [Work]"]
    assert desk.listed("today", "--calendar", "Home") == []
    assert "no calendar of that name" in desk.refused("today", "--calendar", "Play").message
    desk.environ["METIER_CALDAV_URL"] += "op/work/"
    assert desk.listed("today") == ["Sat 2026-03-28, all day: Tea [Work]"]


@pytest.mark.slow
def test_a_wrong_password_and_a_server_that_is_gone_are_failures_in_one_sentence(
    desk: Desk, home: Radicale
) -> None:
    wrong = desk.run("2026-03-28", METIER_CALDAV_PASSWORD="not this")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err == "metier-ical-query: The calendar server refused the name or password.\n"
    gone = desk.run("2026-03-28", METIER_CALDAV_URL="http://127.0.0.1:1/")
    assert (gone.code, gone.err) == (1, "metier-ical-query: The calendar server cannot be reached.\n")


@pytest.mark.slow
def test_a_certificate_is_checked(desk: Desk, radicale: Started) -> None:
    server = radicale(tls=True)
    desk.environ = server.environ
    trusted = desk.run("2026-03-28")
    assert "no calendar for this user" in trusted.err  # it was reached, and has none yet
    del desk.environ["SSL_CERT_FILE"]
    assert "certificate is not trusted" in desk.run("2026-03-28").err


@contextlib.contextmanager
def tunnel(asked: list[str]) -> Iterator[int]:
    """A proxy for CONNECT that keeps what it was asked for and always leads to the same machine."""
    listening = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head and (more := client.recv(65536)):
                head += more
            asked.append(head.split(b"\r\n")[0].decode())
            port = int(asked[-1].split(" ")[1].rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=20) as server:
                client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=pump, args=(server, client), daemon=True)
                back.start()
                pump(client, server)
                back.join(20)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join(20)


@pytest.mark.slow
def test_a_proxy_in_the_environment_is_the_way_out(desk: Desk, radicale: Started) -> None:
    server = radicale(tls=True)
    desk.environ = server.environ
    asked: list[str] = []
    with tunnel(asked) as port:
        ran = desk.run("2026-03-28", HTTPS_PROXY=f"http://127.0.0.1:{port}")
        assert "no calendar for this user" in ran.err
        assert asked and set(asked) == {f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"}
        asked.clear()
        desk.run("2026-03-28", HTTPS_PROXY=f"http://127.0.0.1:{port}", NO_PROXY="127.0.0.1")
        assert asked == []


def test_plain_http_goes_through_a_proxy_as_well(desk: Desk) -> None:
    proxy = Listener(lambda asked: reply("502 Bad Gateway"))
    try:
        desk.environ["METIER_CALDAV_URL"] = "http://127.0.0.1:1/dav/"
        assert desk.run("today", HTTP_PROXY=f"http://127.0.0.1:{proxy.port}").code == 1
        assert proxy.asked[0].target == "http://127.0.0.1:1/dav/"
    finally:
        proxy.close()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://example.org/dav/", "must be https"),
        ("http://127.0.0.1.example.org/", "must be https"),
        ("http://localhost.example.org/", "must be https"),
        ("https://me:secret@example.org/", "must not hold"),
        ("ftp://example.org/", "https://"),
        ("file:///etc/passwd", "https://"),
        ("example.org", "https://"),
        ("https://", "https://"),
        ("https://[", "not an address"),
        ("https://a:99999/", "not an address"),
    ],
)
def test_an_address_that_would_give_the_password_away_is_not_asked(desk: Desk, url: str, says: str) -> None:
    desk.environ["METIER_CALDAV_URL"] = url
    problem = desk.refused("today")
    assert says in problem.message and "secret" not in problem.message


LEADS = {
    "redirection": lambda there: reply("301 Moved Permanently", b"", Location=f"{there}/dav/"),
    "home": lambda there: reply(
        "207 Multi-Status",
        b'<?xml version="1.0"?><multistatus xmlns="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><response><href>/</href>'
        b"<propstat><prop><current-user-principal><href>/op/</href></current-user-principal>"
        b"<c:calendar-home-set><href>%b/home/</href></c:calendar-home-set></prop>"
        b"<status>HTTP/1.1 200 OK</status></propstat></response></multistatus>" % there.encode(),
        Content_Type="text/xml",
    ),
}


@pytest.mark.parametrize("way", LEADS)
def test_a_server_that_leads_elsewhere_is_not_followed(desk: Desk, way: str) -> None:
    other = Listener(lambda asked: reply("401 Unauthorized", WWW_Authenticate="Basic realm=x"))
    there = f"http://127.0.0.1:{other.port}"
    server = Listener(lambda asked: LEADS[way](there))
    try:
        desk.environ |= {
            "METIER_CALDAV_URL": f"http://127.0.0.1:{server.port}/",
            "METIER_CALDAV_USER": "op",
            "METIER_CALDAV_PASSWORD": "geheim",
        }
        ran = desk.run("today")
        assert ran.code == 1 and "leads elsewhere" in ran.err
        assert server.asked and other.asked == []
    finally:
        server.close()
        other.close()


@pytest.mark.parametrize("body", [b"", b"<html>", b"<multistatus xmlns='DAV:'/>", b"\xff\xfe", b"<a>" * 5000])
def test_a_server_that_answers_nonsense_is_a_failure_in_one_sentence(desk: Desk, body: bytes) -> None:
    server = Listener(lambda asked: reply("207 Multi-Status", body, Content_Type="text/xml"))
    try:
        desk.environ["METIER_CALDAV_URL"] = f"http://127.0.0.1:{server.port}/"
        ran = desk.run("today")
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "Traceback" not in ran.err
    finally:
        server.close()


EVENT = SERIES.replace("UID:series", "UID:1").encode()
THERE = b"<d:resourcetype><d:collection/><c:calendar/></d:resourcetype><d:displayname>Work</d:displayname>"


def told(href: str, properties: bytes) -> bytes:
    """An answer about one thing."""
    return reply(
        "207 Multi-Status",
        b'<?xml version="1.0"?><d:multistatus xmlns:d="DAV:" xmlns:c="urn:ietf:params:xml:ns:caldav"><d:response>'
        b"<d:href>%b</d:href><d:propstat><d:prop>%b</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>"
        b"</d:response></d:multistatus>" % (href.encode(), properties),
        Content_Type="text/xml",
    )


def method(asked: Asked) -> str:
    return asked.line.split(" ")[0]


@contextlib.contextmanager
def serving(desk: Desk, **answers: Answering) -> Iterator[Listener]:
    """A server with one calendar at its address, which answers some methods in its own way."""

    def answer(asked: Asked) -> "bytes | Iterator[bytes]":
        own = answers.get(method(asked).lower())
        return own(asked) if own is not None else told("/cal/", THERE)

    server = Listener(answer)
    desk.environ["METIER_CALDAV_URL"] = f"http://127.0.0.1:{server.port}/cal/"
    try:
        yield server
    finally:
        server.close()


def data(text: bytes) -> bytes:
    return b'<d:getetag>"1"</d:getetag><c:calendar-data>%b</c:calendar-data>' % text


@pytest.mark.parametrize(
    "given",
    [data(b"hello"), data(b""), b'<d:getetag>"1"</d:getetag>', data(EVENT[: len(EVENT) // 2])],
    ids=["no calendar", "empty", "nothing", "half"],
)
def test_an_event_that_the_server_names_and_does_not_give_whole_is_said_to_be_missing(
    desk: Desk, given: bytes
) -> None:
    with serving(desk, report=lambda asked: told("/cal/e.ics", given)):
        assert desk.listed("today") == ["(1 event of Work could not be worked out, and may be missing here.)"]


def test_an_event_that_the_server_gives_only_by_its_name_is_asked_for_by_it(desk: Desk) -> None:
    def report(asked: Asked) -> bytes:
        by_name = b"<d:href>/cal/e%20%26.ics</d:href>" in asked.body
        return told("/cal/e%20%26.ics", data(EVENT) if by_name else b"")

    with serving(desk, report=report) as server:
        assert desk.listed("today") == ["Sat 2026-03-28 15:00–16:00: Standup moved [Work]"]
        assert [method(each) for each in server.asked] == ["PROPFIND", "REPORT", "REPORT"]


def test_the_calendar_itself_among_its_events_is_none(desk: Desk) -> None:
    with serving(desk, report=lambda asked: told("/cal/", b'<d:getetag>"1"</d:getetag>')):
        assert desk.listed("today") == []


TEA = ("add", "Tea", "2026-03-28T15:00", "2026-03-28T16:00")


def test_nothing_is_asked_after_an_event_was_stored(desk: Desk) -> None:
    with serving(desk, put=lambda asked: reply("201 Created", b"")) as server:
        assert desk.ask(*TEA) == "Added Sat 2026-03-28 15:00–16:00: Tea [Work]\n"
        assert [method(each) for each in server.asked] == ["PROPFIND", "PUT"]
        assert b"SUMMARY:Tea\r\n" in server.asked[1].body


@pytest.mark.parametrize(
    "answer",
    [
        lambda asked: iter(()),
        lambda asked: iter((b"HTTP/1.1 201 Created\r\nContent-Le",)),
        lambda asked: reply("500 Internal Server Error", b"boom", Content_Type="text/xml"),
        lambda asked: reply("504 Gateway Timeout"),
        lambda asked: reply("201 Created", b"<html>", Content_Type="text/xml"),
    ],
    ids=["cut", "cut later", "500", "504", "garbage"],
)
def test_an_event_that_was_sent_and_not_answered_for_is_not_said_to_have_failed(
    desk: Desk, answer: Answering
) -> None:
    with serving(desk, put=answer) as server:
        assert "whether it was added is not known" in desk.refused(*TEA).message
        assert [method(each) for each in server.asked].count("PUT") == 1


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ("403 Forbidden", "does not allow"),
        ("412 Precondition Failed", "did not take the event"),
        ("307 Temporary Redirect", "leads elsewhere"),
    ],
)
def test_an_event_that_the_server_refuses_is_said_to_be_refused(desk: Desk, status: str, says: str) -> None:
    with serving(desk, put=lambda asked: reply(status, b"", Location="/other/")):
        assert says in desk.refused(*TEA).message


FAULTS = {
    "a failing proxy": (reply("500 Oops", b"boom", Content_Type="text/xml"), "right now (status 500)"),
    "busy": (reply("503 Busy", b"", Retry_After="5"), "right now (status 503)"),
    "too often": (reply("429 Slow Down", b"", Retry_After="100"), "did not do what it was asked"),
    "cut XML": (reply("207 Multi-Status", b"<d:multi", Content_Type="text/xml"), "as one for calendars does"),
    "nothing": (reply("207 Multi-Status", b"", Content_Type="text/xml"), "does (status 207)"),
    "a page": (reply("200 OK", b"<html>Log in</html>", Content_Type="text/html"), "does (status 200)"),
    "no XML": (reply("200 OK", b"Log in", Content_Type="text/plain"), "does (status 200)"),
    "tokens": (reply("401 Unauthorized", b"", WWW_Authenticate="Bearer"), "another kind of sign-in"),
    "forbidden": (reply("403 Forbidden", b""), "does not allow"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("asking", ["propfind", "report"])
def test_ordinary_faults_of_a_server_are_told_apart_and_never_ours(
    desk: Desk, fault: str, asking: str
) -> None:
    answer, says = FAULTS[fault]
    desk.environ |= {"METIER_CALDAV_USER": "op", "METIER_CALDAV_PASSWORD": "geheim"}
    with serving(desk, **{asking: lambda asked: answer}):
        problem = desk.refused("today")
        assert says in problem.message and not problem.usage


def test_a_principal_at_another_host_leads_elsewhere(desk: Desk) -> None:
    elsewhere = (
        b"<d:resourcetype><d:collection/></d:resourcetype><d:current-user-principal>"
        b"<d:href>http://127.0.0.2/p/</d:href></d:current-user-principal>"
    )
    with serving(desk, propfind=lambda asked: told("/cal/", elsewhere)):
        assert "leads elsewhere" in desk.refused("today").message


@pytest.mark.slow
def test_a_server_that_answers_a_byte_at_a_time_is_not_waited_for_without_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caldav_server, "WHOLE", 1)
    gone = threading.Event()

    def dripping(asked: Asked) -> Iterator[bytes]:
        yield b"HTTP/1.1 207 Multi-Status\r\nContent-Length: 100000\r\n\r\n"
        while not gone.wait(0.2):
            yield b" "

    handler = signal.getsignal(signal.SIGALRM)
    began = time.monotonic()
    with serving(desk, propfind=dripping):
        try:
            assert "within 1 seconds" in desk.refused("today").message
        finally:
            gone.set()
    assert time.monotonic() - began < 10
    assert signal.getsignal(signal.SIGALRM) == handler


def test_no_netrc_is_read(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login someone password else\n")
    (tmp_path / ".netrc").chmod(0o600)
    server = Listener(lambda asked: reply("401 Unauthorized", WWW_Authenticate="Basic realm=x"))
    try:
        desk.environ["METIER_CALDAV_URL"] = f"http://127.0.0.1:{server.port}/"
        assert desk.run("today", HOME=str(tmp_path)).code == 1
        assert server.asked and all(
            "authorization" not in {name.lower() for name in each.headers} for each in server.asked
        )
    finally:
        server.close()
