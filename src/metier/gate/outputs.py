"""What a tool returned, held against the shape of its dialect and against what it declared to return. Pure.

What does not fit is not handed on: who asked relies on the declaration. It ran all the same, and its effect stays in the
record together with what came back.
"""

from metier.gate.schema import returned_problem
from metier.model.answer import returned
from metier.model.outcome import Completed, Failed
from metier.model.skill import Tool


def held_to_its_word(outcome: Completed | Failed, tool: Tool) -> Completed | Failed:
    """The outcome in its one form, or that it returned what it never declared; the place is named, the value is not quoted."""
    if isinstance(outcome, Completed) and tool.answer != "value":
        outcome = returned(outcome, tool.answer)
    if isinstance(outcome, Failed) or not (problem := _problem(outcome, tool)):
        return outcome
    message = f"{tool.name!r} ran, but what it returned is not what it declares: {problem}. The record keeps what came back"
    return Failed(
        call_id=outcome.call_id,
        code="bad_output",
        message=message,
        run=outcome.run,
        artifacts=outcome.artifacts,
    )


def fits(outcome: Completed, tool: Tool) -> bool:
    """Whether this is still what the tool declares to return, of a value that was kept meanwhile."""
    return not _problem(outcome, tool)


def _problem(outcome: Completed, tool: Tool) -> str:
    if tool.returns is None:
        return ""
    try:
        return returned_problem(tool.returns, outcome.value)
    except ValueError as error:
        return f"cannot be judged: {error}"
