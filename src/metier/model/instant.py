"""A moment as text, in UTC: the one way in which everything that is shown or sent says when."""

from datetime import UTC, datetime


def written(seconds: float) -> str:
    """Unix seconds as text; empty for what is no moment."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError, OSError):
        return ""


def seconds_of(text: str) -> float:
    """The text as Unix seconds; 0 for what is no moment."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
