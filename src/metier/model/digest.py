"""Canonical bytes (RFC 8785) and their digests: two equal values have one digest, in any language."""

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
else:
    Json = Any  # msgspec cannot resolve a recursive alias, and JSON decoding yields nothing else anyway


def canonical(value: Json) -> bytes:
    """The one byte string for a JSON value.

    Raises:
        ValueError: for NaN, infinities, lone surrogates and integers beyond ±(2^53-1), which have none.
    """
    import rfc8785  # only fingerprints need it; the listing path does not

    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise ValueError(str(error)) from None
    except UnicodeEncodeError as error:
        raise ValueError(f"lone surrogate at position {error.start}") from None


def digest(value: Json) -> str:
    """`sha256:<hex>` of the canonical bytes of `value`."""
    return digest_bytes(canonical(value))


def digest_bytes(data: bytes) -> str:
    """`sha256:<hex>` of bytes as they are."""
    import hashlib  # costs more to import than the whole listing path may take for it

    return f"sha256:{hashlib.sha256(data).hexdigest()}"
