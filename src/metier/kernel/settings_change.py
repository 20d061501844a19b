"""What a patch makes of settings, and what of them is shown. Pure, and nothing here quotes a value.

A patch is merged into what is there by its places, null removes one. Secrets stand apart from everything else, each under its
dotted path; where they are shown there is the mask, of one length whatever it hides. The mask sent back means: as it was.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, final

from msgspec import Struct

from metier.kernel.settings_shape import Path, Shape, dotted
from metier.model.digest import Json
from metier.model.text import one_line
from metier.record.secret_text import MASK

SEALED: Final = "$sealed"
"""The one member of what a door sends in the place of a secret that it sealed itself."""
MOST_PLACES: Final = 1_000
"""That one patch may touch."""
_DEPTH: Final = 16
_MOST_BAD: Final = 20
"""Defaults that do not fit. Where there are more, none is used."""
Unsealed: TypeAlias = Callable[[str, str], Json]
"""What a door sealed, for that path. Raises ValueError where it is not for it."""


class BadPatch(ValueError):
    """What is wrong with a patch, for who sent it."""


@final
class Values(Struct, frozen=True, kw_only=True):
    """The settings of a skill, secrets apart."""

    plain: dict[str, Json]
    secret: dict[str, Json]
    """By dotted path."""


def apart(shape: Shape, plain: dict[str, Json], secret: Mapping[str, Json]) -> Values:
    """What is stored, with everything secret on the one side: a place may have become secret since it was written."""
    moved: dict[str, Json] = {}
    left = _without_secrets(shape, plain, (), moved)
    return Values(plain=left, secret={**moved, **secret})


def patched(
    shape: Shape, values: Values, patch: dict[str, Json], unsealed: Unsealed
) -> tuple[Values, list[str]]:
    """The settings with `patch` in them, and which places it touched.

    Raises:
        BadPatch: when it does not fit.
    """
    changed: dict[Path, Json] = {}
    _flatten(shape, patch, (), changed, 0)
    plain, secret = _own(values.plain), dict(values.secret)
    given: dict[str, Json] = {}
    touched: list[str] = []
    for path, value in changed.items():
        name = dotted(path)
        if shape.is_secret(path) or name in secret:  # what was sealed once is never written in the clear
            if value == MASK:
                continue
            value = _secret_value(name, value, unsealed)
            secret.pop(name, None)
            if value is not None:
                secret[name] = value
        elif _holds_mask(value):
            raise BadPatch(
                f"setting {one_line(name, 120)!r} is the mask of a secret, and no secret; leave it out"
            )
        else:
            _merge(plain, path, value)
        touched.append(name)
        if value is not None:
            _put(given, path, _without_nulls(value))
    if problem := shape.problem(given):
        raise BadPatch(problem)
    made = Values(plain=plain, secret=secret)
    before = whole(shape, values)
    if not shape.problem(before) and (problem := shape.problem(whole(shape, made))):
        raise BadPatch(problem)  # each fits, and together they do not
    return made, touched


def initial(shape: Shape) -> tuple[Values, list[str]]:
    """The defaults that fit, and the names of those that do not."""
    nothing = Values(plain={}, secret={})
    fit, bad = nothing, list[str]()
    waiting = [shape.defaults] if shape.defaults else []
    while (
        waiting
    ):  # most often all fit at once; else those that do not are found by halves, in the order they stand
        part = waiting.pop()
        try:
            fit, _ = patched(shape, fit, part, _none_sealed)
        except BadPatch:
            names = list(part)
            if len(names) == 1:
                bad += names
            else:
                half = len(names) // 2
                waiting.append({name: part[name] for name in names[half:]})
                waiting.append({name: part[name] for name in names[:half]})
            if len(bad) > _MOST_BAD:
                return nothing, list(shape.defaults)
    return Values(plain=fit.plain, secret={}), bad


def shown(shape: Shape, values: Values) -> tuple[dict[str, Json], dict[str, Json]]:
    """The settings for people and skills, and which places are masked."""
    seen = _own(shape.known(values.plain))
    hidden = _places(shape, values.secret)
    for path in hidden:
        _put(seen, path, MASK)
    return seen, {dotted(path): True for path in hidden}


def whole(shape: Shape, values: Values) -> dict[str, Json]:
    """Everything as one object, secrets and all. Only to be judged, and for our own use."""
    made = _own(shape.known(values.plain))
    for path in _places(shape, values.secret):
        value = values.secret[dotted(path)]
        _put(made, path, _own(value) if isinstance(value, dict) else value)
    return made


def _places(shape: Shape, secret: Mapping[str, Json]) -> list[Path]:
    """Where the secrets belong. One that the schema no longer has a place for belongs nowhere."""
    known = {dotted(path): path for path in shape.leaves}
    found = (known.get(name, (name,) if shape.is_secret((name,)) else ()) for name in secret)
    return [path for path in found if path]


def _none_sealed(_path: str, _text: str) -> Json:
    raise ValueError("a default is not sealed")


def _without_secrets(
    shape: Shape, value: dict[str, Json], below: Path, moved: dict[str, Json]
) -> dict[str, Json]:
    left: dict[str, Json] = {}
    for name, item in value.items():
        path = (*below, name)
        if shape.is_secret(path):
            if item is not None:
                moved[dotted(path)] = item
        elif isinstance(item, dict) and shape.is_inner(path):
            left[name] = _without_secrets(shape, item, path, moved)
        else:
            left[name] = item
    return left


def _flatten(shape: Shape, patch: dict[str, Json], below: Path, into: dict[Path, Json], depth: int) -> None:
    for key, value in patch.items():
        if len(patch) > MOST_PLACES or len(into) > MOST_PLACES:
            raise BadPatch(
                f"more than {MOST_PLACES:,} settings are given at once; give them one part after the other"
            )
        path = (*below, *shape.named(key, below))
        if depth > _DEPTH or len(path) > _DEPTH or "" in path:
            raise BadPatch(f"setting {one_line(key, 80)!r} is no place in settings")
        if isinstance(value, dict) and shape.is_inner(path):
            _flatten(shape, value, path, into, depth + 1)
            continue
        over = next((path[:size] for size in range(1, len(path)) if shape.is_secret(path[:size])), None)
        if over is not None:
            raise BadPatch(f"setting {dotted(over)!r} is secret as a whole, so it is set as a whole")
        if path in into:
            raise BadPatch(f"setting {one_line(dotted(path), 120)!r} is given twice")
        if value is None and shape.is_inner(path):
            _removed(shape, path, into)
        else:
            into[path] = value


def _removed(shape: Shape, path: Path, into: dict[Path, Json]) -> None:
    """Everything below is removed, secrets too."""
    into.update({leaf: None for leaf in shape.leaves if leaf[: len(path)] == path})


def _secret_value(name: str, value: Json, unsealed: Unsealed) -> Json:
    if isinstance(value, dict) and set(value) == {SEALED}:
        text = value[SEALED]
        try:
            value = unsealed(name, text if isinstance(text, str) else "")
        except ValueError as error:
            raise BadPatch(f"setting {name!r}: {error}") from None
    if _holds_mask(value):
        raise BadPatch(
            f"setting {name!r} holds the mask of a secret beside other text; send the whole secret anew"
        )
    return None if value == "" else value


def _holds_mask(value: Json) -> bool:
    if isinstance(value, str):
        return MASK in value
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_holds_mask, inside))


def _own(value: dict[str, Json]) -> dict[str, Json]:
    """A copy whose objects can be changed."""
    return {name: _own(item) if isinstance(item, dict) else item for name, item in value.items()}


def _merge(node: dict[str, Json], path: Path, value: Json) -> None:
    """Put `value` at that place in `node`; an object is merged into the one that is there."""
    if isinstance(value, dict):
        before: Json = node
        for name in path:
            before = before.get(name) if isinstance(before, dict) else None
        value = _into(before if isinstance(before, dict) else {}, value)
    _put(node, path, value)


def _into(before: dict[str, Json], value: dict[str, Json]) -> dict[str, Json]:
    made = dict(before)
    for name, item in value.items():
        below = before.get(name)
        if item is None:
            made.pop(name, None)
        elif isinstance(item, dict):
            made[name] = _into(below if isinstance(below, dict) else {}, item)
        else:
            made[name] = item
    return made


def _without_nulls(value: Json) -> Json:
    """An object as it is once those of its members that are to go are gone."""
    if not isinstance(value, dict):
        return value
    return {name: _without_nulls(item) for name, item in value.items() if item is not None}


def _put(node: dict[str, Json], path: Path, value: Json) -> None:
    """Put `value` at that place in `node`; None takes away what is there."""
    *above, last = path
    for name in above:
        below = node.get(name)
        if not isinstance(below, dict):
            if value is None and name not in node:
                return
            below = node[name] = {}
        node = below
    if value is None:
        node.pop(last, None)
    else:
        node[last] = value
