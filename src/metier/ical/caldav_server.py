"""Speaking with a CalDAV server: where it is, what may be asked there, and what it is when something goes wrong.

The server's address is the operator's word and nothing leads away from it: a redirection is not followed, a place
elsewhere is not asked, and the password goes over TLS or stays on this machine. Proxies are taken from the
environment, because that is the only way out of a sandbox; nothing else is, no `.netrc` and no configuration file.
"""

import ipaddress
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar, cast, final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct

from metier.ical.budget import Spent, deadline
from metier.ical.problem import Problem, failed
from metier.ical.series import FOREIGN

TIMEOUT: Final = 4
"""Seconds that the server may be silent."""
WHOLE: Final = 10
"""Seconds for everything that is asked of it."""
NOT_KNOWN: Final = (
    "The calendar server was sent the event and gave no clear answer, so whether it was added is not known. "
    "Look before you add it again."
)
_T = TypeVar("_T")


@final
class Server(Struct, frozen=True, kw_only=True):
    """Where the calendars are."""

    url: str
    user: str
    password: str
    certificates: str
    """A file of authorities besides those of the machine; empty: only those."""


@final
class _Line:
    """What was said to the server."""

    def __init__(self) -> None:
        self.sent = False
        """Whether it was given an event, and did not refuse it."""


@final
class Elsewhere(Exception):
    """The server would have us go on at another place."""


@final
class Odd(Exception):
    """The server answers, and not as one for calendars does."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def server(environ: Mapping[str, str]) -> Server | Problem | None:
    """The server the environment names; None when it names none."""
    url = environ.get("METIER_CALDAV_URL", "").strip()
    if not url:
        return None
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        return failed("METIER_CALDAV_URL is not an address.")
    if parts.scheme not in ("http", "https") or not host:
        return failed("METIER_CALDAV_URL must be an https:// address.")
    if parts.username is not None or parts.password is not None:
        return failed(
            "METIER_CALDAV_URL must not hold a name or password. Set METIER_CALDAV_USER and METIER_CALDAV_PASSWORD."
        )
    if parts.scheme == "http" and not _this_machine(host):
        return failed("METIER_CALDAV_URL must be https: over http others could read the password.")
    return Server(
        url=url,
        user=environ.get("METIER_CALDAV_USER", ""),
        password=environ.get("METIER_CALDAV_PASSWORD", ""),
        certificates=environ.get("SSL_CERT_FILE", ""),
    )


def _this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def spoken(server: Server, work: Callable[[Any], _T | Problem]) -> _T | Problem:
    """What came of speaking with the server, or which of the few things it is that went wrong."""
    from caldav.lib.error import DAVError

    line = _Line()
    try:
        with deadline(WHOLE), _client(server, line) as client:
            return work(client)
    except Spent:
        why = failed(f"The calendar server did not answer within {WHOLE} seconds.")
    except (DAVError, Elsewhere, Odd, OSError, SyntaxError, *FOREIGN) as error:
        why = _why(error)
    return failed(NOT_KNOWN) if line.sent else why


@contextmanager
def _client(server: Server, line: _Line) -> Generator[Any, None, None]:
    from caldav.davclient import DAVClient

    made = cast("Any", DAVClient)(
        url=server.url,
        proxy=_proxy(server.url),
        username=server.user or None,
        password=server.password or None,
        timeout=TIMEOUT,
        ssl_verify_cert=server.certificates or True,
        enable_rfc6764=False,
    )
    made.session.trust_env = False
    _kept_there(made.session, server.url, line)
    with made as client:
        yield client


def _kept_there(session: Any, url: str, line: _Line) -> None:
    """Answers of a server name further addresses; those of others are not asked, and never told the password."""
    ask = session.request

    def only_there(method: str, asked: str, **more: Any) -> Any:
        if _origin(asked) != _origin(url):
            raise Elsewhere
        # Else it would name the proxy there, where there is one, and a careful proxy refuses that.
        more["headers"] = {**(more.get("headers") or {}), "Host": urlsplit(asked).netloc}
        line.sent = method == "PUT"
        answer = ask(method, asked, **{**more, "allow_redirects": False})
        status = int(answer.status_code)
        if status >= 500:  # before the library reads what a failing proxy writes
            raise Odd(status)
        if status >= 300:
            line.sent = False
        if 300 <= status < 400:
            raise Elsewhere
        return answer

    session.request = only_there


def _origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    if proxy_bypass(parts.netloc):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _why(error: Exception) -> Problem:
    """Which of the few things it is that go wrong with servers. Their own words are not passed on."""
    from caldav.lib.error import AuthorizationError, DAVError, NotFoundError

    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    message = "The calendar server did not answer as one for calendars does. Look at METIER_CALDAV_URL."
    if isinstance(error, AuthorizationError):
        message = "The calendar server refused the name or password."
        if error.status == 403:
            message = "The calendar server does not allow that to this user."
    elif isinstance(error, NotImplementedError):
        message = "The calendar server wants another kind of sign-in than by name and password, which is not offered here."
    elif isinstance(error, Elsewhere):
        message = "The calendar server leads elsewhere. Put its final address into METIER_CALDAV_URL."
    elif isinstance(error, NotFoundError):
        message = "The calendar server knows nothing at METIER_CALDAV_URL."
    elif isinstance(error, Odd) and error.status >= 500:
        message = f"The calendar server does not work right now (status {error.status}). Try again later."
    elif isinstance(error, Odd):
        message = f"The calendar server did not answer as one for calendars does (status {error.status})."
    elif any(isinstance(each, ssl.SSLError) or type(each).__name__ == "SSLError" for each in causes):
        message = "The calendar server's certificate is not trusted. SSL_CERT_FILE may name its authority."
    elif "Timeout" in type(error).__name__:
        message = f"The calendar server did not answer within {TIMEOUT} seconds."
    elif isinstance(error, OSError):
        message = "The calendar server cannot be reached."
    elif isinstance(error, DAVError):
        message = "The calendar server did not do what it was asked."
    return failed(message)
