"""Ready → Outcome: the second half of running a call, after its intent was recorded.

A run that did what no skill may ever do bars its skill at that moment, ends the other runs of it, and disables it
before its outcome is told.
"""

import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from anyio import to_thread
from anyio.lowlevel import checkpoint_if_cancelled
from msgspec.structs import asdict

from metier.errors import MetierError
from metier.gate.reachable import while_stopped
from metier.host.asked import Noting
from metier.host.running import STOPPED, Running
from metier.model.call import ApprovedCall
from metier.model.entry import Operation
from metier.model.job import Job, Report
from metier.model.outcome import Completed, Failed, Run
from metier.model.ports import Operations
from metier.prepare import Check, Ready, Workshop, digest_of, skill_of
from metier.sandbox.ending import NOTHING_ASKED, Violations, outcome_of, violated
from metier.sandbox.job_hook import unfit_context
from metier.sandbox.protocol import Sandbox

_log: Final = logging.getLogger("metier.execute")

Ended: TypeAlias = Callable[[Completed | Failed], None]
"""Takes how a run ended, at the moment it did."""


async def execute(ready: Ready, operations: Operations, workshop: Workshop) -> Completed | Failed:
    """Run the call. Whatever goes wrong inside is a `Failed`; only a cancellation comes out as an exception."""
    valid = ready.approved.authorized.valid
    try:
        if ready.sandbox is None and ready.check is None:
            return await _operated(ready, operations, workshop)
        return await _under_way(ready, operations, workshop)
    except MetierError as error:
        return Failed(call_id=valid.call.id, code="internal", message=str(error))
    except Exception:  # noqa: BLE001  what runs here is not ours to know, and its caller is owed an outcome
        _log.exception("call %s of %s failed", valid.call.id, valid.tool.name)
        message = (
            f"{valid.tool.name!r} failed with an error of its own; the log of the program has the details"
        )
        return Failed(call_id=valid.call.id, code="internal", message=message)


async def _operated(ready: Ready, operations: Operations, workshop: Workshop) -> Completed | Failed:
    """Do what needs no sandbox, so that it ends when it is stopped."""
    approved, running = ready.approved, workshop.running
    call = approved.authorized.valid.call
    if while_stopped(approved.authorized.valid.tool):
        return await _operate(approved, operations)  # no run: else the stop it lifts or looks at would end it
    try:
        with running.under(skill_of(approved), call.id, ready.mark) as this:
            if not this.why:
                outcome = await _operate(approved, operations)
                # What it had run need not be the skill's own code; then that was barred under its own name.
                if outcome.run is not None and not running.blamed(call.id):
                    _bar_violator(approved, outcome.run, running)
                return outcome
        return Failed(call_id=call.id, code="interrupted", message=this.why)
    finally:
        if running.unsettled:
            await running.settle(workshop.disable)


async def _under_way(ready: Ready, operations: Operations, workshop: Workshop) -> Completed | Failed:
    """Run it so that it ends when its skill is stopped."""
    call = ready.approved.authorized.valid.call
    outcome: Completed | Failed = Failed(call_id=call.id, code="interrupted", message=STOPPED)
    told = Violations()
    reported = False

    def ended(how: Completed | Failed) -> None:
        # Nothing waits between the report and the bar, so no run of the skill gets in between.
        nonlocal outcome, reported
        outcome, reported = violated(how, told.seen, ready.job), True
        if outcome.run is not None:
            _bar_violator(ready.approved, outcome.run, workshop.running)

    try:
        with workshop.running.under(skill_of(ready.approved), call.id, ready.mark) as this:
            if not this.why:
                await _begin(ready, operations, workshop, told, ended)
        if not reported and this.why:
            outcome = Failed(call_id=call.id, code="interrupted", message=this.why)
    finally:
        if not reported and told.seen:  # cancelled: there is no report, and yet it is known
            ended(outcome)
        await workshop.running.settle(workshop.disable)
    return outcome


def _bar_violator(approved: ApprovedCall, run: Run, running: Running) -> None:
    """Let no run of a skill begin that did what none may ever do."""
    if run.violations:
        kinds = sorted({each.kind for each in run.violations})
        why = f"it tried what no skill may ever do: {', '.join(kinds)}"
        running.bar(skill_of(approved), approved.authorized.valid.call.id, why, digest_of(approved))


async def _begin(
    ready: Ready, operations: Operations, workshop: Workshop, told: Violations, ended: Ended
) -> None:
    sandbox, job, found = ready.sandbox, ready.job, ready.approved.authorized.bytes
    first = ready.check.job if ready.check is not None else job
    first_use = first is not None and bool(first.skill) and found is not None and found.first_use
    if first_use and not await to_thread.run_sync(workshop.bind, ready.approved):
        message = "the skill was bound to other bytes meanwhile"
        call_id = ready.approved.authorized.valid.call.id
        ended(Failed(call_id=call_id, code="interrupted", message=message))
        return
    if ready.check is not None and (failed := await _checked(ready.check, told)) is not None:
        ended(failed)
        return
    if sandbox is None or job is None:
        ended(await _operate(ready.approved, operations))
        return
    async with workshop.host(job) as host:
        noting = Noting(host, told.add) if host is not None else None
        fields: dict[str, Any] = {**asdict(job), "host": noting, "alarm": told.add, "life": workshop.life}
        await checkpoint_if_cancelled()  # stopped meanwhile: not even a moment of it
        report = await sandbox.run(Job(**fields))
        ended(_outcome(job, report, sandbox, noting))


async def _checked(check: Check, told: Violations) -> Failed | None:
    """Show the arguments to the skill's own check; only when it returns `true` the call goes on. Nobody answers what it
    asks, and it may touch nothing."""
    job = check.job
    await checkpoint_if_cancelled()
    fields: dict[str, Any] = {**asdict(job), "alarm": told.add}
    outcome = outcome_of(job, await check.sandbox.run(Job(**fields)), sandbox=check.sandbox.name)
    if isinstance(outcome, Completed):
        if outcome.value is True:
            return None
        message = "the skill's own check did not let these arguments pass"
        if outcome.value is not False:
            message += "; it gave back neither true nor false, and only true lets them pass"
        return Failed(call_id=job.call_id, code="invalid_input", message=message, run=outcome.run)
    message = f"the skill's own check of the arguments: {outcome.message}"
    code = "invalid_input" if outcome.code == "raised" else outcome.code
    return Failed(call_id=job.call_id, code=code, message=message, run=outcome.run)


def _outcome(job: Job, report: Report, sandbox: Sandbox, noting: Noting | None) -> Completed | Failed:
    asked = noting.asked if noting is not None else NOTHING_ASKED
    outcome = outcome_of(job, report, sandbox=sandbox.name, asked=asked)
    problem = unfit_context(job, outcome.value) if isinstance(outcome, Completed) else ""
    if problem:
        return Failed(
            call_id=job.call_id,
            code="bad_result",
            message=problem,
            run=outcome.run,
            artifacts=outcome.artifacts,
        )
    return outcome


async def _operate(approved: ApprovedCall, operations: Operations) -> Completed | Failed:
    valid = approved.authorized.valid
    entry = valid.tool.entry
    function = operations.find(entry.module, entry.operation) if isinstance(entry, Operation) else None
    if function is None:
        message = f"nothing here can run {valid.tool.name!r}: no module offers its operation"
        return Failed(call_id=valid.call.id, code="internal", message=message)
    await checkpoint_if_cancelled()
    return await function(approved)
