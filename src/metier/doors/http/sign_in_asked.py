"""What can be asked by who is not signed in, to sign in: the requests and what is answered to them."""

from typing import Annotated, Final, Literal, final

from msgspec import Meta, Struct

from metier.doors.http.described import Described
from metier.doors.http.oidc import CALLBACK
from metier.doors.http.sign_in import SignedIn


@final
class Link(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands behind the `#` of a link that `metier sign-in` prints."""

    token: Annotated[str, Meta(min_length=1, max_length=128)]


@final
class NameAndPassword(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of a person who has one."""

    id: Annotated[str, Meta(min_length=1, max_length=200)]
    password: Annotated[str, Meta(min_length=1, max_length=1_024)]


@final
class Start(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An empty object."""


@final
class There(Struct, frozen=True, kw_only=True):
    """Where the page sends the browser."""

    url: str


@final
class Ways(Struct, frozen=True, kw_only=True):
    """How people can sign in here."""

    ways: list[Literal["link", "password", "oidc"]]


@final
class CameBack(Struct, frozen=True, kw_only=True):
    """What a provider sends somebody back with. It may say more, which is not looked at."""

    state: str = ""
    code: str = ""
    iss: str = ""
    error: str = ""


_ASKS: Final = (401, 408, 429)
LINK: Final = Described(
    method="POST",
    path="/api/v1/sign-in/link",
    about="Sign in with a link, once. The session comes as a cookie.",
    by=(),
    body=Link,
    answer=SignedIn,
    problems=_ASKS,
    headers=("Origin",),
)
PASSWORD: Final = Described(
    method="POST",
    path="/api/v1/sign-in/password",
    about="Sign in with a password. The session comes as a cookie.",
    by=(),
    body=NameAndPassword,
    answer=SignedIn,
    problems=_ASKS,
    headers=("Origin",),
)
START: Final = Described(
    method="POST",
    path="/api/v1/sign-in/oidc/start",
    about="Where to send a person to sign in with his account elsewhere.",
    by=(),
    body=Start,
    answer=There,
    problems=(*_ASKS, 409),
    headers=("Origin",),
)
BACK: Final = Described(
    method="GET",
    path=CALLBACK,
    about="Where the provider sends him back to. The session comes as a cookie.",
    by=(),
    query=CameBack,
    answers={303: None},
    problems=(401, 429),
    shown=True,
)
WAYS: Final = Described(
    method="GET", path="/api/v1/sign-in", about="How people can sign in here.", by=(), answer=Ways
)
DESCRIBED: Final = (WAYS, LINK, PASSWORD, START, BACK)
