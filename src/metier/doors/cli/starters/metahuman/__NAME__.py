"""What the skill runs. `execute` gets the inputs of the manifest and returns `success` with the outputs, or with an `error`."""

from typing import Any


def execute(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"success": True, "words": len(inputs["text"].split())}
