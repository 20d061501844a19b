"""AuthorizedCall → ApprovedCall: an ALLOW goes on, an ASK needs somebody's word."""

from metier.model.call import ApprovedCall, AuthorizedCall
from metier.model.outcome import Pending, Refused
from metier.model.verdict import Decision


def approve(authorized: AuthorizedCall) -> ApprovedCall | Pending | Refused:
    """Let an allowed call through. Nobody can be asked yet, so a call that would have to be asked is refused."""
    if authorized.verdict.decision is Decision.ALLOW:
        return ApprovedCall(authorized=authorized, evidence="policy")
    return Refused(
        call_id=authorized.valid.call.id,
        code="approval_required",
        reasons=authorized.verdict.reasons,
        remedy="This version has no approval desk, so what would have to be asked does not run",
    )
