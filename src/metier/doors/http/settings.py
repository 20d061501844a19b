"""Settings of skills. Reading and writing are operations of the module `settings`, so calls like any other; a secret is sealed here, before
anything that sees the call could see it."""

from typing import Final, final

from anyio import to_thread
from msgspec import Struct, json
from starlette.responses import Response

from metier.doors.http.endpoint import Asking, Endpoint
from metier.doors.http.making import made
from metier.doors.http.problem import Refusal
from metier.host.sealed import Sealed
from metier.kernel.settings import name_of, wrapped_for
from metier.kernel.settings_change import SEALED
from metier.kernel.settings_shape import Path, Shape, dotted
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, Pending, Refused
from metier.model.role import SETTINGS
from metier.model.text import one_line
from metier.record.secret_text import MASK


@final
class Patch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to change: merged into what is there, null removes a place, the mask leaves a secret as it is."""

    patch: dict[str, Json]


async def _read(asking: Asking) -> Response:
    asked: dict[str, Json] = {
        "skill_id": asking.given["skill"],
        "include_schema": True,
        "include_masked": True,
    }
    return await made(asking, "settings.get_skill", asked)


async def _write(asking: Asking) -> Response:
    """Nothing is sealed, and nothing is said of the skill, for who may not write: what he sent goes no further, and the gate refuses him."""
    body: Patch = asking.body
    may = SETTINGS in await asking.rights()
    patch = await to_thread.run_sync(_sealed, asking, body.patch) if may else {}
    said: dict[str, Json] = {"skill_id": asking.given["skill"], "patch": body.patch}
    return await made(asking, "settings.set_skill", {**said, "patch": patch}, said=said)


async def _reset(asking: Asking) -> Response:
    return await made(asking, "settings.reset_skill", {"skill_id": asking.given["skill"]})


def _sealed(asking: Asking, patch: dict[str, Json]) -> dict[str, Json]:
    """The patch with every secret in it sealed for its place. Blocking."""
    engine = asking.serving.engine
    name = name_of(engine.seen.catalog, asking.given["skill"])
    listed = engine.seen.catalog.get(name)
    if listed is None or listed.skill is None:
        return patch  # the operation says what is wrong
    try:
        shape = Shape(listed.skill)
    except ValueError as error:
        raise Refusal(
            409,
            "settings_unusable",
            one_line(str(error), 300),
            remedy="`metier skills info` says what is wrong with the skill; its author can mend it",
        ) from None
    box = Sealed(engine.seen.settings.home)

    def sealed(value: Json, path: Path) -> Json:
        if path and shape.is_secret(path):
            if value is None or value == MASK:
                return value
            return {SEALED: box.wrapped(json.encode(value).decode(), wrapped_for(name, dotted(path)))}
        if isinstance(value, dict):
            return {key: sealed(each, (*path, *key.split("."))) for key, each in value.items()}
        return value

    return {key: sealed(each, tuple(key.split("."))) for key, each in patch.items()}


_ENDS: Final = {202: Pending}
ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/settings/{skill}",
        about="The settings of a skill, with what each is for. Secrets are masked.",
        does=_read,
        answer=Completed | Refused | Failed,
        answers=_ENDS,
        problems=(404,),
    ),
    Endpoint(
        method="PATCH",
        path="/api/v1/settings/{skill}",
        about="Change settings of a skill.",
        does=_write,
        body=Patch,
        answer=Completed | Refused | Failed,
        answers=_ENDS,
        problems=(404, 409),
        headers=("Idempotency-Key",),
    ),
    Endpoint(
        method="DELETE",
        path="/api/v1/settings/{skill}",
        about="Put the settings of a skill back to its defaults, and forget its secrets.",
        does=_reset,
        answer=Completed | Refused | Failed,
        answers=_ENDS,
        problems=(404,),
        headers=("Idempotency-Key",),
    ),
)
