"""Is this id token the provider's word on who signed in here just now? Pure: no clock but the one given, no connection.

How it may be signed is what the operator allows, never what the token or the provider says. A key that the token itself brings along
is not looked at.
"""

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast, final

from msgspec import Struct

from metier.model import strictjson
from metier.model.digest import Json

if TYPE_CHECKING:
    from joserfc.jwk import Key

LONGEST: Final = 16_384
MOST_KEYS: Final = 50
LEEWAY: Final = 60.0
"""Seconds that two clocks may differ."""
OLDEST: Final = 600.0
"""Seconds ago that it may have been made."""
_SHORTEST_RSA: Final = 2_048
_KINDS: Final = {"R": "RSA", "P": "RSA", "ES": "EC", "Ed": "OKP"}


class BadToken(Exception):
    """It is not. The text says why, without anything that was in it."""


@final
class Wanted(Struct, frozen=True, kw_only=True):
    """What it must say."""

    issuer: str
    client_id: str
    nonce: str
    algorithms: Sequence[str]


def subject_of(token: str, keys: Json, wanted: Wanted, *, now: float) -> str:
    """Who signed in, as the provider counts its people. `keys` is its key set.

    Raises:
        BadToken: when it is no token, is not signed by one of these keys, or is not about this sign-in.
    """
    header = _header(token)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in wanted.algorithms:
        raise BadToken("it is signed in a way that is not allowed here")
    if "crit" in header or "b64" in header:
        raise BadToken("it asks for more than is understood here")
    kid = header.get("kid")
    claims = _signed(token, _key(keys, algorithm, kid if isinstance(kid, str) else None), algorithm)
    _check(claims, wanted, now)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255:
        raise BadToken("it does not say who signed in")
    if not subject.isascii() or not subject.isprintable():
        raise BadToken("it does not say who signed in")
    return subject


def knows_key(keys: Json, token: str) -> bool:
    """Whether the key set has a key of the name that the token gives; a provider may have a new one."""
    kid = _header(token).get("kid")
    return kid is None or any(each.get("kid") == kid for each in _usable(keys))


def _header(token: str) -> dict[str, Json]:
    parts = token.split(".")
    if len(token) > LONGEST or len(parts) != 3 or not token.isascii():
        raise BadToken("it is no signed token")
    return _object(parts[0])


def _object(part: str) -> dict[str, Json]:
    try:
        text = base64.b64decode(part + "=" * (-len(part) % 4), b"-_", validate=True)
        value = strictjson.loads(text, most=LONGEST)
    except (binascii.Error, ValueError):
        raise BadToken("it cannot be read") from None
    if not isinstance(value, dict):
        raise BadToken("it cannot be read")
    return value


def _signed(token: str, key: "Key", algorithm: str) -> dict[str, Json]:
    from joserfc import jws
    from joserfc.errors import JoseError

    try:
        jws.deserialize_compact(token, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):
        raise BadToken("it is not signed by the provider") from None
    return _object(token.split(".")[1])


def _usable(keys: Json) -> list[dict[str, Any]]:
    found = keys.get("keys") if isinstance(keys, dict) else None
    if not isinstance(found, list) or len(found) > MOST_KEYS:
        raise BadToken("the provider's keys cannot be read")
    kept = [each for each in found if isinstance(each, dict) and each.get("use", "sig") == "sig"]
    return cast("list[dict[str, Any]]", kept)


def _key(keys: Json, algorithm: str, kid: str | None) -> "Key":
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    kind = _KINDS[algorithm[:2] if algorithm[0] == "E" else algorithm[0]]
    fitting = [
        each
        for each in _usable(keys)
        if each.get("kty") == kind
        and each.get("alg", algorithm) == algorithm
        and (kid is None or each.get("kid") == kid)
    ]
    if len(fitting) != 1:
        raise BadToken("the provider has no one key that it names")
    if kind == "RSA" and len(str(fitting[0].get("n"))) * 6 < _SHORTEST_RSA:
        raise BadToken("the provider's key is too short")
    try:
        return import_key(fitting[0])
    except (JoseError, ValueError, TypeError, KeyError):
        raise BadToken("the provider's key cannot be used") from None


def _check(claims: dict[str, Json], wanted: Wanted, now: float) -> None:
    audience = claims.get("aud")
    for_whom = audience if isinstance(audience, list) else [audience]
    if claims.get("iss") != wanted.issuer:
        raise BadToken("another provider made it")
    if wanted.client_id not in for_whom:
        raise BadToken("it is for another program")
    if (len(for_whom) > 1 or "azp" in claims) and claims.get("azp") != wanted.client_id:
        raise BadToken("it was given to another program")
    if not wanted.nonce or claims.get("nonce") != wanted.nonce:
        raise BadToken("it is not of this sign-in")
    expires, made = claims.get("exp"), claims.get("iat")
    if not _is_time(expires) or not _is_time(made):
        raise BadToken("it does not say when it was made and when it ends")
    if now >= cast("float", expires) + LEEWAY:
        raise BadToken("it has expired")
    if not now - OLDEST - LEEWAY < cast("float", made) <= now + LEEWAY:
        raise BadToken("it was not made just now")
    before = claims.get("nbf")
    if before is not None and (not _is_time(before) or cast("float", before) > now + LEEWAY):
        raise BadToken("it does not hold yet")


def _is_time(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
