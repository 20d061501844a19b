"""When a record was written, asked of its bytes as they lie there: most of them need not be read for it."""

from typing import Final

_AT: Final = b'"at":"'


def at_terms(since: int | str, until: int | str) -> tuple[list[str], list[object]]:
    """Terms of SQL that pass over what lies outside of two times, both included, and what is bound in them. Numbers ask for nothing here.

    `at` is written second, after a number, so the first of that name is the record's own.
    """
    terms: list[str] = []
    given: list[object] = []
    for text, compared in ((since, ">="), (until, "<=")):
        if isinstance(text, str) and text:
            terms.append(f"substr(body, instr(body, ?) + ?, ?) {compared} ?")
            given += [_AT, len(_AT), len(text), text.encode("utf-8", "surrogatepass")]
    return terms, given
