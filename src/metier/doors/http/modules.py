"""Every operation of every module, ours and those of skills that live, at `/api/v1/modules/{module}/{operation}`. A call like any other."""

from typing import Final, final

from msgspec import Struct
from starlette.responses import Response

from metier.doors.http.endpoint import Asking, Endpoint
from metier.doors.http.making import made
from metier.gate.roles import needed
from metier.model.digest import Json
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed, Pending, Refused


@final
class OperationShown(Struct, frozen=True, kw_only=True):
    """What can be asked of a module."""

    name: str
    """`module.op`"""
    description: str
    effect: str
    privileged: bool
    permission: str
    """The right that it takes."""
    skill: str
    """Whose code does it, where it is not ours."""
    parameters: dict[str, Json]


@final
class Operations(Struct, frozen=True, kw_only=True):
    """Everything that who asks can ask of modules."""

    operations: list[OperationShown]


async def _operate(asking: Asking) -> Response:
    tool = f"{asking.given['module']}.{asking.given['operation']}"
    return await made(asking, tool, asking.body)


async def _operations(asking: Asking) -> Operations:
    engine, offered = asking.serving.engine, await asking.offered()
    await engine.kernel.ready("skills.list", engine.seen.tools)
    found = [
        OperationShown(
            name=tool.name,
            description=tool.description,
            effect=tool.effect,
            privileged=tool.privileged,
            permission=needed(tool),
            skill=tool.skill,
            parameters=tool.parameters,
        )
        for tool in engine.kernel.tools(engine.seen.tools).values()
        if isinstance(tool.entry, Operation) and "." in tool.name and offered(tool)
    ]
    return Operations(operations=sorted(found, key=lambda each: each.name))


ENDPOINTS: Final = (
    Endpoint(
        method="GET",
        path="/api/v1/modules",
        about="The operations of every module that you may ask for.",
        does=_operations,
        answer=Operations,
    ),
    Endpoint(
        method="POST",
        path="/api/v1/modules/{module}/{operation}",
        about="Have an operation of a module done. The body is its arguments.",
        does=_operate,
        body=dict[str, Json],
        answer=Completed | Refused | Failed,
        answers={202: Pending},
        problems=(404, 409),
        headers=("Idempotency-Key",),
    ),
)
