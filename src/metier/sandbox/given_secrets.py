"""Secrets that a run was given as variables, masked in what came back of it: what it returned and printed, the names of what it
left, what it tried. Pure.

A granted variable is visible to the code that runs. Which of them is a secret is known by its name, or because the skill asks
for it as one. What lies in a file that the run left is not looked at.
"""

from typing import Final

from msgspec import json
from msgspec.structs import replace

from metier.model.digest import Json
from metier.model.job import Event, Job, Report
from metier.record.secret_names import names_a_secret, words_of
from metier.sandbox.secret import Mask

_OF_VARIABLES: Final = frozenset({"key", "pat", "sk"})
"""Last words of what only among variables is a secret: a field may be called `sort_key`."""


def mask_of(job: Job) -> Mask:
    """What hides each of them, however it is spelled. Those of the operator's own programs among the job's count too."""
    mask = Mask()
    for given in (job.environment, *(each.environment for each in job.programs.values())):
        for name, value in given.items():
            if name in job.permissions.secrets or names_a_secret(name) or _ends_as_one(name):
                mask.add(value)
    return mask


def without_secrets(report: Report, mask: Mask) -> Report:
    """The report with each of them masked."""
    if not mask:
        return report
    hide, fault = mask.text, report.fault
    return replace(
        report,
        value=masked(report.value, mask) if _holds(report.value, mask) else report.value,
        fault=replace(fault, name=hide(fault.name), message=hide(fault.message)) if fault else None,
        stdout=_printed(report.stdout, mask, truncated=report.truncated),
        stderr=_printed(report.stderr, mask, truncated=report.truncated),
        denials=tuple(_event(each, mask) for each in report.denials),
        violations=tuple(_event(each, mask) for each in report.violations),
        artifacts=tuple(replace(each, path=hide(each.path)) for each in report.artifacts),
    )


def _ends_as_one(name: str) -> bool:
    return not _OF_VARIABLES.isdisjoint(words_of(name)[-1:])


def _event(event: Event, mask: Mask) -> Event:
    return replace(event, detail=mask.text(event.detail))


def _printed(text: str, mask: Mask, *, truncated: bool) -> str:
    """Without a secret that the cut goes through, too."""
    return mask.data(text.encode(errors="surrogatepass"), truncated=truncated).decode(errors="replace")


def _holds(value: Json, mask: Mask) -> bool:
    """Whether there is one in it, by one look at all of it: there may be very many texts."""
    try:
        data = json.encode(value)
    except UnicodeEncodeError:
        return True
    return mask.data(data) != data


def masked(value: Json, mask: Mask) -> Json:
    """The value with each of them masked, at any depth."""
    if isinstance(value, str):
        return mask.text(value)
    if isinstance(value, list):
        return [masked(each, mask) for each in value]
    if isinstance(value, dict):
        return {mask.text(name): masked(each, mask) for name, each in value.items()}
    return value
