"""What a meeting costs: everybody in it, for as long as it takes."""

from typing import Any


def cost(params: dict[str, Any]) -> dict[str, float]:
    hours = params["people"] * params["minutes"] / 60
    return {"total": round(hours * params["hourly"], 2), "hours": round(hours, 2)}
