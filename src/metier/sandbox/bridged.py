"""How a run with a bridge ended: what came over it, and what the wall saw, in one report."""

from metier.model.job import Ending, Fault, Report, Usage
from metier.sandbox.capture import Capture
from metier.sandbox.wall import Cut, Ended
from metier.sandbox.way_out import WayOut
from metier.sandbox.wire import Broken, End, Raised, Returned, Wire

_OUT_OF_MEMORY = "MemoryError"


def report_of(
    end: End,
    ended: Ended,
    cut: Cut,
    wire: Wire,
    output: tuple[Capture, Capture],
    way: WayOut,
    usage: Usage,
    why: Fault | None = None,
) -> Report:
    """What the wall saw comes first: code that was killed for its memory did not return, whatever it said. `why` is what there
    is to say of the cut."""
    out, err = output
    ending, fault = (cut, why) if cut else _ending(end, ended)
    value = end.value if isinstance(end, Returned) and ending == "returned" else None
    return Report(
        ending=ending,
        value=value,
        fault=fault,
        exit_code=ended.exit_code,
        signal=ended.signal,
        stdout=wire.stdout + out.data.decode(errors="replace"),
        stderr=wire.stderr + err.data.decode(errors="replace"),
        truncated=wire.truncated or out.truncated or err.truncated,
        usage=usage,
        denials=(*ended.denials, *wire.denials, *way.denials),
        violations=(*ended.violations, *wire.violations, *way.violations),
    )


def _ending(end: End, ended: Ended) -> tuple[Ending, Fault | None]:
    if ended.why == "out_of_memory":
        return "out_of_memory", None
    match end:
        case Returned():
            return "returned", None
        case Raised(fault=fault) if fault.name == _OUT_OF_MEMORY:
            return "out_of_memory", fault
        case Raised(fault=fault):
            return "raised", fault
        case Broken(problem="forged_message" | "violation", detail=detail):
            return "stopped", Fault(name="Violation", message=detail)
        case Broken(problem="late", detail=detail):
            return "timed_out", Fault(name="TimedOut", message=detail)
        case Broken(problem="bad_result" | "too_large", detail=detail):
            return "bad_result", Fault(name="BadResult", message=detail)
        case Broken():
            if ended.signal is not None:
                return "signalled", None
            return "no_result", Fault(name="NoResult", message="the code ended without giving a result")
