"""Sent into a sandbox together with an act: notes which of several attempts succeeded."""

from types import TracebackType


class Tries:
    """`with tries("name"): …` succeeds when nothing is raised inside."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.refused: dict[str, str] = {}
        self._name = ""

    def __call__(self, name: str) -> "Tries":
        self._name = name
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if kind is None:
            self.did.append(self._name)
            return False
        if not issubclass(kind, Exception):
            return False
        self.refused[self._name] = f"{kind.__name__} {getattr(error, 'errno', '') or ''}".strip()
        return True

    def said(self) -> dict[str, object]:
        return {"did": self.did, "refused": self.refused}
