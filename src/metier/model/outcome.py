"""How a call ended. `Refused` means nothing ran; `Failed` means it ran, or tried to."""

from typing import Final, Literal, TypeAlias, final

from msgspec import Struct

from metier.model.digest import Json

RefusalCode: TypeAlias = Literal[
    "unknown_tool",
    "unknown_skill",
    "invalid_arguments",
    "skill_disabled",
    "skill_broken",
    "skill_unavailable",
    "not_trusted",
    "forbidden",
    "confirmation_required",
    "approval_required",
    "approval_denied",
    "approval_expired",
    "approval_void",
    "too_many_pending",
    "budget_exceeded",
    "stopped",
    "already_begun",
    "replaced",
    "changed_meanwhile",
    "record_unavailable",
    "setup_unusable",
    "not_runnable",
    "sandbox_unavailable",
]
"""`not_runnable`: what it would need cannot be given as it was asked for (a limit that is no limit, a path that is not
there, a program that nobody may replace). `approval_void`: it was approved, and is no longer the act that was approved, or
was used already. `replaced`: a trigger stands in its place. `sandbox_unavailable`: no sandbox here keeps every promise that is needed."""
FailureCode: TypeAlias = Literal[
    "not_found",
    "too_large",
    "not_text",
    "interrupted",
    "unrecorded",
    "internal",
    "invalid_input",
    "reported",
    "raised",
    "permission_denied",
    "command_failed",
    "http_error",
    "crashed",
    "no_result",
    "bad_result",
    "bad_output",
    "timed_out",
    "out_of_memory",
    "out_of_fuel",
    "out_of_disk",
    "violation",
    "not_started",
    "busy",
]
"""`invalid_input`: the skill's own code that looks at the arguments first did not let them pass, and the tool itself did
not run. `reported`: it ran to its end, and says itself that it did not succeed. From `raised` on: how a run in a sandbox ended, as the sandbox saw it. `busy` and `not_started`: it was to run, and
the sandbox did not begin."""

REMEDIES: Final[dict[RefusalCode, str]] = {
    "skill_disabled": "`metier skills enable NAME` lifts it, after a violation once you looked at what it did "
    "(`metier audit tail`); what the configuration disables is enabled there",
    "skill_broken": "`metier skills check` says what to mend",
    "not_trusted": "Look at it with `metier skills info NAME`, then trust it with `metier skills trust NAME`",
    "forbidden": "Nobody gave you that right; a person may give it, or do it himself",
    "skill_unavailable": "`metier skills check` says how to get what is missing",
    "confirmation_required": "Ask the caller, then call again with the same arguments and confirmed: true",
    "approval_required": "Call again: it will be asked anew",
    "approval_void": "Call again if it is still wanted: it will be judged, and if need be asked, anew",
    "budget_exceeded": "Wait, or change [budgets] in metier.toml",
    "stopped": "`metier resume` lets things run again",
    "changed_meanwhile": "Call again: it will be judged anew",
    "already_begun": "Nothing runs twice; `metier audit show CALL` says what became of it",
}
"""What to do about a refusal, where it is the same for every call."""
GATE_HOOK: Final = (
    "Change what is asked for; or the operator mends the hook, or takes its skill out of [hooks] gate in metier.toml: "
    "`metier hooks list` shows whose word counts"
)
"""What to do where a gate hook refused."""
RULES_UNUSABLE: Final = (
    "The operator corrects policy.toml or puts it back: `metier policy check` says what is wrong with it, and "
    "`metier policy forget` that there are to be no rules"
)
"""What to do where nothing is allowed because nobody knows the rules."""
GATE_HOOK_UNHEARD: Final = (
    "The operator mends the hook, trusts its skill, or takes it out of [hooks] gate in metier.toml: `metier hooks list` shows whose word "
    "counts"
)
"""What to do where a gate hook could not be asked."""
UNHEARD: Final = frozenset({RULES_UNUSABLE, GATE_HOOK_UNHEARD})
"""With these nobody said no: somebody whose word is needed could not be asked, and may be later."""


@final
class Attempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a run tried and was refused."""

    kind: str
    """For example `read`, `egress`, `socket`, `syscall`, `host_call`."""
    detail: str
    count: int = 1


@final
class Request(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something a run asked of the host over the bridge."""

    method: str
    """For example `exec`, `http`, `log`."""
    detail: str = ""
    """A program and how many arguments it got, or a URL without its query; never what was handed on."""
    answer: str
    """`answered`, or the name of what kept it from being; `interrupted` when the run ended first."""
    count: int = 1


@final
class Run(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a sandbox saw of a run, and what the run printed. Only `stdout` and `stderr` are the skill's own words."""

    sandbox: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    output_bytes: int = 0
    fuel: int | None = None
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False
    """Whether it made more output than was kept."""
    denials: tuple[Attempt, ...] = ()
    """Told to the skill, counted, and no more."""
    violations: tuple[Attempt, ...] = ()
    """What no skill may ever try: one is enough to disable it."""
    requests: tuple[Request, ...] = ()
    """What it asked of the host, allowed or not; equal ones are counted."""
    requests_unlisted: int = 0
    """How many further requests there were."""


@final
class Artifact(Struct, frozen=True, kw_only=True):
    """A file that a run left in its `out` folder, as it is kept."""

    path: str
    """From the workspace on: `out/<call id>/<name>`."""
    type: str
    """Media type, by the ending of its name."""
    size: int
    sha256: str


@final
class Earlier(Struct, frozen=True, kw_only=True):
    """That it ran before: where it was approved, for who asked and was not there any more. He asks the same again, nothing runs,
    and he is given how it ended, once."""

    call_id: str
    """The call that ran."""
    at: str
    """When it began. UTC."""
    approved_by: str
    """Who approved it, and where he did had it run."""
    approval_id: str

    @property
    def text(self) -> str:
        """For people and models."""
        return (
            f"This did not run now. {self.approved_by} approved it when it was asked before, and it ran then, once, at {self.at} "
            f"(call {self.call_id}); this is how it ended. Called again it is a new act, and is asked anew."
        )


@final
class Completed(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="completed", omit_defaults=True):
    """It ran and this is what it returned."""

    call_id: str
    value: Json
    run: Run | None = None
    """None when no sandbox was needed."""
    artifacts: tuple[Artifact, ...] = ()
    """Files it made that are kept."""
    earlier: Earlier | None = None
    """Where it ran when it was asked before, and not now; the value is as the record keeps it."""


@final
class Pending(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="pending"):
    """Nothing ran yet; somebody has to decide first."""

    call_id: str
    approval_id: str
    reasons: tuple[str, ...]
    expires_at: str = ""
    """UTC. What nobody decided by then is denied."""


@final
class Refused(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="refused"):
    """Nothing ran."""

    call_id: str
    code: RefusalCode
    reasons: tuple[str, ...]
    remedy: str = ""
    prompt: str = ""
    """For `confirmation_required`: what to ask the caller."""


@final
class Failed(Struct, frozen=True, kw_only=True, tag_field="outcome", tag="failed", omit_defaults=True):
    """It ran, or tried to, and did not end well."""

    call_id: str
    code: FailureCode
    message: str
    run: Run | None = None
    """None when it did not come to a sandbox."""
    value: Json = None
    """What it returned all the same, in the shape of its dialect."""
    artifacts: tuple[Artifact, ...] = ()
    """Files it made before it failed that are kept."""
    earlier: Earlier | None = None
    """Where it ran when it was asked before, and not now."""


Outcome: TypeAlias = Completed | Pending | Refused | Failed
