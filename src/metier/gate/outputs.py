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
    if tool.returns is None or isinstance(outcome, Failed):
        return outcome
    try:
        problem = returned_problem(tool.returns, outcome.value)
    except ValueError as error:
        problem = f"cannot be judged: {error}"
    if not problem:
        return outcome
    message = f"{tool.name!r} ran, but what it returned is not what it declares: {problem}. The record keeps what came back"
    return Failed(
        call_id=outcome.call_id,
        code="bad_output",
        message=message,
        run=outcome.run,
        artifacts=outcome.artifacts,
    )
