"""The module `settings`: what a skill can be told, by the schema of its own. Plain values lie in kernel.db, secret ones sealed.

Defaults are written once, where nothing is stored, and never over anything. Whoever reads is shown the mask in the place of a
secret, the skill itself too: its code names its own secrets in requests (`setting:PATH`), and never holds one. People with the
right to write settings write those of every skill, a skill that declared `settings.set_skill` its own.
"""

import logging
from collections.abc import Callable
from typing import Final, final

import msgspec
from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.dialects.xbot import plain_name
from metier.errors import MetierError
from metier.host.sealed import Sealed
from metier.kernel.events import Events
from metier.kernel.operation import Asked, Module, OperationError, module, offered
from metier.kernel.settings_change import BadPatch, Values, apart, initial, patched, shown
from metier.kernel.settings_kept import Kept
from metier.kernel.settings_rows import BAD_PARAMS, MOST_SENT, MOST_STORED, all_names, fitting, stored
from metier.kernel.settings_shape import Shape
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.role import SETTINGS
from metier.model.skill import Skill
from metier.model.text import one_line

FORBIDDEN: Final = "E_AGENT_FORBIDDEN"
UPDATED: Final = "settings.skill.updated"
_log: Final = logging.getLogger("metier.settings")
_ID: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 256}
_ONE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"skill_id": _ID},
    "required": ["skill_id"],
    "additionalProperties": False,
}
_GET: Final[dict[str, Json]] = {
    **_ONE,
    "properties": {
        "skill_id": _ID,
        "include_schema": {"type": "boolean"},
        "include_masked": {"type": "boolean"},
    },
}
_SET: Final[dict[str, Json]] = {
    **_ONE,
    "properties": {"skill_id": _ID, "patch": {"type": "object"}},
    "required": ["skill_id", "patch"],
}


def wrapped_for(skill: str, path: str) -> str:
    """What a secret is for that a door seals before it sends it as a setting."""
    return f"setting:{skill}:{path}"


def name_of(catalog: Catalog, id: str) -> str:
    """The name of the skill that is meant: the name itself, or the id of its contract."""
    if catalog.get(id) is None:
        found = catalog.get(plain_name(id))
        if found is not None and found.skill is not None and found.skill.key == id:
            return found.name
    return id


@final
class SkillSettings:
    """The settings of every skill."""

    def __init__(self, store: Store, sealed: Sealed, events: Events, catalog: Callable[[], Catalog]) -> None:
        self._store = store
        self._sealed = sealed
        self._kept = Kept(store, sealed)
        self._events = events
        self._catalog = catalog

    def module(self) -> Module:
        """`settings.get_skill`, `set_skill`, `reset_skill` and `schema`."""
        return module(
            "settings",
            offered(
                "settings.get_skill",
                self._get,
                "Read the settings of a skill; secrets are masked. A skill reads its own.",
                _GET,
                effect="read",
                risk="low",
            ),
            offered(
                "settings.set_skill",
                self._set,
                "Change settings of a skill: the patch is merged, null removes, the mask keeps a secret.",
                _SET,
                privileged=True,
                permission=SETTINGS,
            ),
            offered(
                "settings.reset_skill",
                self._reset,
                "Put the settings of a skill back to its defaults and forget its secrets.",
                _ONE,
                privileged=True,
                permission=SETTINGS,
            ),
            offered(
                "settings.schema",
                self._schema,
                "Read which settings a skill has. A skill reads its own.",
                _ONE,
                effect="read",
                risk="low",
            ),
        )

    def written(self, name: str) -> float | None:
        """When this process last wrote the settings of a skill, as their row has it."""
        return self._kept.written.get(name)

    async def prepare(self, skill: Skill) -> None:
        """Before a skill lives: write its defaults where nothing is stored, and seal what has become secret.

        Nothing that is wrong with settings keeps a skill from being enabled; it is said in the log.
        """
        try:
            shape = Shape(skill)
            if not shape.there:
                return
            await to_thread.run_sync(self._prepared, skill.name, shape)
        except (ValueError, OperationError, MetierError) as error:
            _log.warning("the settings of %s could not be prepared: %s", one_line(skill.name, 80), error)

    async def seal_anew(self) -> None:
        """Whenever skills were loaded: seal what has become secret since it was stored, also of skills that do not live.

        Nothing that is wrong with the settings of one keeps those of others as they are; it is said in the log.
        """
        try:
            await to_thread.run_sync(self._sealed_anew)
        except MetierError as error:
            _log.warning("what has become secret among settings could not be sealed: %s", error)

    async def current(self, name: str) -> dict[str, Json]:
        """The settings of a skill, secrets masked; nothing where it has none.

        Raises:
            OperationError: when they cannot be read.
        """
        name, shape = self._named(name)
        if not shape.there:
            return {}
        return (await to_thread.run_sync(self._shown, name, shape))[0]

    async def revealed(self, name: str, path: str) -> str | None:
        """One secret setting in the clear. For code of ours that sends it, never for anybody who shows it.

        Raises:
            OperationError: when it cannot be read.
        """
        values = await to_thread.run_sync(self._values, *self._named(name))
        value = values.secret.get(path)
        return value if isinstance(value, str) else None

    async def secrets_of(self, skill: Skill) -> tuple[Json, ...]:
        """Every secret setting of a skill in the clear, for who has to hide them in what is shown.

        Raises:
            OperationError: when they cannot be read.
        """
        return tuple((await to_thread.run_sync(self._kept.secrets, skill.name)).values())

    async def _get(self, asked: Asked) -> Json:
        name, shape = self._about(asked, reading=True)
        if not shape.there:
            return _no_schema(name)
        settings, masked = await to_thread.run_sync(self._shown, name, shape)
        answer: dict[str, Json] = {"ok": True, "skill_id": name, "settings": settings}
        if asked.arguments.get("include_masked") is True:
            answer["masked"] = masked
        if asked.arguments.get("include_schema") is True:
            answer["schema"] = _form(shape)
        return answer

    async def _set(self, asked: Asked) -> Json:
        name, shape = self._about(asked)
        if not shape.there:
            return _no_schema(name)
        patch = asked.arguments.get("patch")
        if not isinstance(patch, dict) or not patch:
            raise OperationError(BAD_PARAMS, "`patch` names no setting")
        return await self._changed(name, shape, patch, asked)

    async def _reset(self, asked: Asked) -> Json:
        name, shape = self._about(asked)
        return await self._changed(name, shape, None, asked) if shape.there else _no_schema(name)

    async def _schema(self, asked: Asked) -> Json:
        name, shape = self._about(asked, reading=True)
        if not shape.there:
            return _no_schema(name)
        return {"ok": True, "skill_id": name, "schema": _form(shape)}

    async def _changed(self, name: str, shape: Shape, patch: dict[str, Json] | None, asked: Asked) -> Json:
        touched = await to_thread.run_sync(self._write, name, shape, patch, asked.principal.id)
        self._events.emit(UPDATED, {"skill": name}, cause=asked.cause)
        settings, masked = await to_thread.run_sync(self._shown, name, shape)
        changed: list[Json] = [*touched]
        return {"ok": True, "skill_id": name, "changed": changed, "settings": settings, "masked": masked}

    def _about(self, asked: Asked, *, reading: bool = False) -> tuple[str, Shape]:
        """The skill whose settings are meant, if who asks may."""
        id, who = asked.arguments.get("skill_id"), asked.principal
        own = (
            who.kind == "skill" and isinstance(id, str) and who.id == f"skill:{name_of(self._catalog(), id)}"
        )
        if who.kind != "human" and not own:
            done = "reads" if reading else "writes"
            message = f"a skill {done} its own settings, and nobody else but people {done} them"
            raise OperationError(FORBIDDEN, message)
        return self._named(id if isinstance(id, str) else "")

    def _named(self, id: str) -> tuple[str, Shape]:
        name = name_of(self._catalog(), id)
        listed = self._catalog().get(name)
        if listed is None or listed.skill is None:
            message = f"there is no skill {one_line(id, 80)!r}; `metier skills list` shows all"
            raise OperationError(BAD_PARAMS, message)
        try:
            return name, Shape(listed.skill)
        except ValueError as error:
            message = f"the settings of {one_line(id, 80)!r} cannot be used: {error}"
            raise OperationError(BAD_PARAMS, message) from None

    def _shown(self, name: str, shape: Shape) -> tuple[dict[str, Json], dict[str, Json]]:
        return shown(shape, self._values(name, shape))

    def _values(self, name: str, shape: Shape) -> Values:
        found = self._kept.found(name)
        plain = found.plain(name)
        return apart(shape, initial(shape)[0].plain if plain is None else plain, found.secret)

    def _prepared(self, name: str, shape: Shape) -> None:
        def made(found: dict[str, Json] | None, before: dict[str, Json]) -> Values | None:
            if found is None:
                values, bad = initial(shape)
                if bad:
                    listed = ", ".join(one_line(each, 60) for each in bad[:5])
                    _log.warning("defaults of %s do not fit its own schema: %s", one_line(name, 80), listed)
                return Values(plain=values.plain, secret=before)
            values = apart(shape, found, before)
            return values if values.plain != found else None

        self._kept.replace(name, "metier", made)

    def _sealed_anew(self) -> None:
        with self._store.reading() as connection:
            names = all_names(connection)
        for name in names:
            listed = self._catalog().get(name)
            if listed is None or listed.skill is None:
                continue
            try:
                shape = Shape(listed.skill)
                found = stored(self._kept.row(name), name)
                if found is not None and apart(shape, found, {}).secret:
                    self._prepared(name, shape)
            except (ValueError, OperationError, MetierError) as error:
                _log.warning("the settings of %s could not be looked at: %s", one_line(name, 80), error)

    def _write(self, name: str, shape: Shape, patch: dict[str, Json] | None, by: str) -> list[str]:
        if patch is None:
            plain = initial(shape)[0].plain
            self._kept.begin_anew(name, plain, by)
            return ["*"]
        fitting(patch, MOST_SENT)
        touched: list[str] = []

        def made(found: dict[str, Json] | None, before: dict[str, Json]) -> Values:
            plain = initial(shape)[0].plain if found is None else found
            values, changed = patched(shape, apart(shape, plain, before), patch, self._unsealed(name))
            fitting(values.secret, 2 * MOST_STORED)
            touched[:] = changed
            return values

        try:
            self._kept.replace(name, by, made)
        except BadPatch as error:
            raise OperationError(BAD_PARAMS, str(error)) from None
        return touched

    def _unsealed(self, name: str) -> Callable[[str, str], Json]:
        def unsealed(path: str, text: str) -> Json:
            value = self._sealed.unwrapped(text, wrapped_for(name, path))
            try:
                return msgspec.json.decode(value)
            except msgspec.MsgspecError:
                raise ValueError("it was not sealed here") from None

        return unsealed


def _no_schema(name: str) -> Json:
    return {"ok": False, "skill_id": name, "reason": "no_schema"}


def _form(shape: Shape) -> Json:
    title = shape.schema.get("title")
    return {
        **({"title": one_line(title, 200)} if isinstance(title, str) else {}),
        "fields": [*shape.fields()],
        "json_schema": shape.schema,
    }
