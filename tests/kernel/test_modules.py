"""Modules and their operations: names are taken once, and what is privileged is guarded where it is done."""

import gc
import pickle

import anyio
import pytest
from msgspec.structs import replace

from metier.kernel.capability import Capability
from metier.kernel.modules import BAD_MODULE, CONFLICT, FORBIDDEN, MOST_MODULES, NOT_READY, Modules
from metier.kernel.operation import NOTHING, Asked, OperationError, module, offered
from metier.model.call import Principal
from metier.model.digest import Json

DONE: list[str] = []
WHO = Principal(id="human:me", kind="human")


async def does(asked: Asked) -> Json:
    DONE.append(f"{asked.module}.{asked.operation}")
    return "done"


def asked(name: str) -> Asked:
    module_, _, operation = name.partition(".")
    return Asked(call_id="call_1", principal=WHO, module=module_, operation=operation, arguments={})


def made(capability: Capability) -> Modules:
    DONE.clear()
    own = module(
        "settings",
        offered("settings.get_skill", does, "Read.", NOTHING, effect="read"),
        offered("settings.set_skill", does, "Write.", NOTHING, privileged=True),
    )
    return Modules([own], capability)


def refused(modules: Modules, name: str, shown: Capability | None) -> str:
    with pytest.raises(OperationError) as error:
        anyio.run(modules.do, asked(name), shown)
    return error.value.code


def test_a_privileged_operation_is_not_done_without_the_capability_of_this_start() -> None:
    capability = Capability()
    modules = made(capability)
    assert refused(modules, "settings.set_skill", None) == FORBIDDEN
    assert refused(modules, "settings.set_skill", Capability()) == FORBIDDEN, "one of another start"
    assert DONE == []
    assert anyio.run(modules.do, asked("settings.set_skill"), capability) == "done"
    assert anyio.run(modules.do, asked("settings.get_skill"), None) == "done", "this one is not privileged"


def test_the_capability_of_an_earlier_start_is_void() -> None:
    before = Capability()
    assert before.admits(before)
    now = Capability()
    assert not now.admits(before)
    assert not now.admits(None)


def test_cap_03_a_capability_shows_itself_nowhere() -> None:
    capability = Capability()
    secret = capability._secret  # pyright: ignore[reportPrivateUsage]
    for text in (
        repr(capability),
        str(capability),
        f"{capability}",
        repr([capability]),
        repr(made(capability)),
    ):
        assert secret.hex() not in text
        assert repr(secret)[2:-1] not in text
    with pytest.raises(TypeError):
        pickle.dumps(capability)
    assert len(secret) >= 32


def test_cap_03_a_traceback_with_the_values_of_variables_shows_no_capability() -> None:
    import traceback

    capability = Capability()
    modules = made(capability)
    try:
        anyio.run(modules.do, asked("settings.set_skill"), Capability())
    except OperationError as error:
        trace = traceback.TracebackException.from_exception(error, capture_locals=True)
        shown = "".join(trace.format())
    secret = capability._secret  # pyright: ignore[reportPrivateUsage]
    assert "capability" in shown.lower(), "control: values are shown"
    assert secret.hex() not in shown
    assert repr(secret) not in shown


@pytest.mark.parametrize(
    "name",
    ["settings", "Settings", "ѕettings", "s3ttings\n", "metier", "kernel", "memory", "", "a.b", "a b", "é"],
)
def test_a_skill_cannot_take_a_name_of_ours_or_one_that_looks_like_it(name: str) -> None:
    modules = made(Capability())
    with pytest.raises(OperationError) as error:
        modules.register("a", name, ["say"], does)
    assert error.value.code in (CONFLICT, BAD_MODULE)
    assert modules.of("a") == ()


@pytest.mark.parametrize("name", ["telegram", "Telegram", "te1egram", "TELEGRAM", "telegrarn"])
def test_the_module_of_a_skill_that_ships_is_registered_by_that_skill_alone(name: str) -> None:
    modules = made(Capability())
    with pytest.raises(OperationError) as error:
        modules.register("beta", name, ["configure"], does)
    assert error.value.code == CONFLICT
    assert "ships with Metier" in error.value.message
    assert modules.of("beta") == ()
    modules.register("beta", "telegraph", ["configure"], does)
    modules.register("xpell-agent-skill-telegram", "telegram", ["configure"], does)
    assert modules.owner("telegram") == "xpell-agent-skill-telegram"


def test_a_name_is_taken_once_and_free_again_when_its_skill_lets_go_of_it() -> None:
    modules = made(Capability())
    modules.register("a", "echo", ["say", "send"], does)
    assert modules.tools["echo.say"].skill == "a"
    assert not modules.tools["echo.say"].privileged
    with pytest.raises(OperationError) as error:
        modules.register("b", "Echo", ["say"], does)
    assert error.value.code == CONFLICT
    before = modules.tools
    modules.unregister("b")
    assert modules.tools is before, "nothing changed"
    modules.unregister("a")
    assert "echo.say" not in modules.tools
    assert refused(modules, "echo.say", None) == BAD_MODULE
    modules.let_go("a")
    modules.register("b", "echo", ["say"], does)
    assert modules.owner("echo") == "b"


def test_a_name_stays_with_its_skill_while_that_is_down_and_nobody_takes_one_that_looks_like_it() -> None:
    modules = made(Capability())
    modules.register("a", "echo", ["say"], does)
    modules.unregister("a")
    for name in ("echo", "Echo", "ech0"):
        with pytest.raises(OperationError) as error:
            modules.register("b", name, ["say"], does)
        assert error.value.code == CONFLICT
        assert "skills stop a" in error.value.message
    modules.register("a", "echo", ["say"], does)
    assert modules.owner("echo") == "a"
    again = made(Capability())
    again.keep({"echo": "a"})
    with pytest.raises(OperationError):
        again.register("b", "echo", ["say"], does)
    assert again.owner("echo") == "", "control: it is kept, and nobody answers for it"


def test_who_takes_other_names_in_each_life_keeps_no_more_than_he_could_have_at_one_time() -> None:
    modules = made(Capability())
    for number in range(3 * MOST_MODULES):
        modules.register("a", f"m{number}x", ["say"], does)
        modules.unregister("a")
    assert modules.kept_for("a") == tuple(
        f"m{number}x" for number in range(2 * MOST_MODULES, 3 * MOST_MODULES)
    )
    modules.register("b", "m0x", ["say"], does)
    with pytest.raises(OperationError):
        modules.register("b", f"m{3 * MOST_MODULES - 1}x", ["say"], does)


def test_what_was_judged_as_one_skills_is_not_done_by_another_that_has_the_name_now() -> None:
    modules = made(Capability())
    modules.register("a", "echo", ["say"], does)
    judged = replace(asked("echo.say"), skill="a")
    assert anyio.run(modules.do, judged, None) == "done"
    modules.unregister("a")
    modules.let_go("a")
    modules.register("b", "echo", ["say"], does)
    DONE.clear()
    for each in (judged, asked("echo.say")):
        with pytest.raises(OperationError) as error:
            anyio.run(modules.do, each, None)
        assert error.value.code == NOT_READY
    assert DONE == []
    assert anyio.run(modules.do, replace(judged, skill="b"), None) == "done"


@pytest.mark.parametrize("operations", [[], ["constructor"], ["__proto__"], ["a b"], ["x"] * 129])
def test_operations_that_are_none_are_refused(operations: list[str]) -> None:
    with pytest.raises(OperationError) as error:
        made(Capability()).register("a", "echo", operations, does)
    assert error.value.code == BAD_MODULE


def test_a_skill_registers_so_many_modules_and_no_more() -> None:
    modules = made(Capability())
    for number in range(MOST_MODULES):
        modules.register("a", f"m{number}x", ["say"], does)
    with pytest.raises(OperationError):
        modules.register("a", "one-more", ["say"], does)
    modules.register("b", "one-more", ["say"], does)


def test_nothing_of_a_capability_is_left_where_others_can_reach_it() -> None:
    """Who has the object can show it, so it must not lie around: nothing but its owner refers to it."""
    capability = Capability()
    modules = made(capability)
    holders = [each for each in gc.get_referrers(capability) if isinstance(each, dict | Modules)]
    assert [each for each in holders if each is not modules.__dict__ and each is not modules] == []
