"""What Amber's handlers are told of their call: exactly what its document promises, by the names it gives. Pure."""

from metier.config.gateway import OperatorSettings
from metier.model.call import Call
from metier.model.digest import Json


def amber_context(call: Call, operator: OperatorSettings) -> dict[str, Json]:
    """`call.{id, callerId, transcript}` and `operator.{name, telegramId}`. What nobody knows is an empty text, as these are texts
    there; only `telegramId` may be missing.

    The id is that of the conversation, for example of a telephone call; where the door knows none, that of this call.
    """
    around = call.surroundings
    told: dict[str, Json] = {"name": operator.name}
    if operator.telegram_id:
        told["telegramId"] = operator.telegram_id
    return {
        "call": {
            "id": around.call_id or call.id,
            "callerId": around.caller_id or "",
            "transcript": around.transcript or "",
        },
        "operator": told,
    }
