"""The cases of ``script_faults.py``: a script, its bug, and what hvdprof should say of it."""

from dataclasses import dataclass

from benchmarks.scripts.fault import Fault

STRAGGLER, PAUSE, INPUT_BOUND = "straggler", "pause", "input-bound"
PERSISTENT, PERIODIC, IRREGULAR, FROM_STEP = "persistent", "periodic", "irregular", "from-step"

PHASES_OF_PLACE = {
    "data": ("data",),
    "worker": ("data",),
    "forward": ("forward",),
    "head": ("forward",),
    "backward": ("backward",),
    # Between backward and the update, in no function of the model.
    "cold": ("before_update",),
    # A third of a longer batch is in the forward pass, and 80 % make a phase.
    "batch": ("mixed", "backward"),
    "optimizer": ("optimizer",),
    # Between the wait and the update, in no function of the optimizer.
    "update": ("before_update",),
    "evaluation": ("evaluation",),
}
"""Phases that are right for a place of a script; every other place lies between two steps."""

BETWEEN_STEPS = ("outside",)

WITHOUT_LOADER = (
    "fp16_clip",
    "grouped_heads",
    "sparse_embedding",
    "sync_batch_norm",
    "gan",
    "evaluate_inside",
    "uneven_epochs",
    "variable_length",
)
"""Scripts that make batches by a call of their own: to a recorder it is other code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What hvdprof should say: kind, ranks, phases that are right, pattern and period.

    Without a kind nothing should be named. Without a pattern every one is right. ``is_any`` is true
    where each rank is hit by itself, at random.
    """

    kind: str = ""
    ranks: tuple[int, ...] = ()
    is_any: bool = False
    phases: tuple[str, ...] = ()
    pattern: str = ""
    period: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A script with a fault on so many ranks; ``what`` is the row of the table it counts in."""

    what: str
    script: str
    fault: str = ""
    np: int = 2
    trace: bool = False
    baseline: bool = False
    truth: Truth = Truth()

    @property
    def name(self) -> str:
        """A name that no other case has."""
        extra = ("-trace" if self.trace else "") + ("-baseline" if self.baseline else "")
        fault = self.fault.replace(":", "-").replace("=", "") or "clean"
        return f"{self.script}-np{self.np}-{fault}{extra}"

    @property
    def is_after_step(self) -> bool:
        """Whether the time is lost behind the step in which the script counts it."""
        place = Fault.parse(self.fault).place
        return place == "evaluation" or place not in PHASES_OF_PLACE

    @property
    def arguments(self) -> tuple[str, ...]:
        """Options of the script."""
        return ("--fault", self.fault) if self.fault else ()


def _case(
    what: str, script: str, fault: str, np: int = 2, *, period: int = 0, baseline: bool = False
) -> Case:
    """A case whose truth follows from its fault; ``period`` is the script's own."""
    bug = Fault.parse(fault)
    period = period or (bug.every if bug.every > 1 else 0)
    pattern = PERIODIC if period else FROM_STEP if bug.first else PERSISTENT
    pattern = IRREGULAR if bug.chance < 1 else pattern
    phases = PHASES_OF_PLACE.get(bug.place, BETWEEN_STEPS)
    if bug.place == "data" and script in WITHOUT_LOADER:
        phases += BETWEEN_STEPS
    of_all = not bug.ranks and not bug.is_any
    kind = PAUSE if of_all else STRAGGLER
    if of_all and pattern == PERSISTENT:
        kind = INPUT_BOUND
    truth = Truth(
        kind=kind,
        ranks=bug.ranks or tuple(range(np)),
        is_any=bug.is_any,
        phases=phases,
        pattern=pattern,
        period=period,
    )
    return Case(what=what, script=script, fault=fault, np=np, baseline=baseline, truth=truth)


CLEAN = "clean twin"
SLOW = "one rank always slow"
RANK_0 = "rank 0 alone, every k steps"
ALL_PAUSE = "all ranks pause, every k steps"
EVERY_KTH = "one rank late in every k-th step"
ANY = "any rank late, at random"
ALIKE = "two ranks slow alike"
DRIFT = "one rank slow from a step on"
PAUSES = "collections and stalls, at random or not"
INPUT = "all ranks input-bound"
PREFETCH = "slow data worker behind a queue"
WRITER = "timeline's writer on rank 0"
UNEVEN = "uneven batch at the end of an epoch"
COLD = "first steps after an evaluation"

SCRIPTS = (
    "mnist_dataloader",
    "accumulation",
    "manual_allreduce",
    "imagenet_schedule",
    "fp16_clip",
    "adasum",
    "grouped_heads",
    "sparse_embedding",
    "sync_batch_norm",
    "gan",
    "loss_scaler",
    "evaluate_inside",
    "uneven_epochs",
    "trainer_callbacks",
    "variable_length",
)

CASES = (
    *(Case(what=CLEAN, script=script) for script in SCRIPTS),
    Case(what=CLEAN, script="mnist_dataloader", np=4),
    Case(what=CLEAN, script="variable_length", np=4),
    Case(what=CLEAN, script="evaluate_inside", np=4),
    Case(what=WRITER, script="grouped_heads", trace=True),
    _case(SLOW, "mnist_dataloader", "backward:rank=1:ms=60", baseline=True),
    _case(SLOW, "accumulation", "forward:rank=1:ms=60"),
    _case(SLOW, "accumulation", "backward:rank=0:ms=60", 4),
    _case(SLOW, "manual_allreduce", "forward:rank=1:ms=60"),
    _case(SLOW, "manual_allreduce", "update:rank=0:ms=60"),
    _case(SLOW, "imagenet_schedule", "data:rank=1:ms=60", baseline=True),
    _case(SLOW, "fp16_clip", "optimizer:rank=1:ms=60"),
    _case(SLOW, "adasum", "backward:rank=1:ms=60"),
    _case(SLOW, "sparse_embedding", "data:rank=0:ms=60"),
    _case(SLOW, "sync_batch_norm", "forward:rank=1:ms=60"),
    _case(SLOW, "sync_batch_norm", "head:rank=1:ms=60"),
    _case(SLOW, "gan", "backward:rank=1:ms=60"),
    _case(SLOW, "loss_scaler", "update:rank=1:ms=60"),
    _case(SLOW, "evaluate_inside", "forward:rank=1:ms=60"),
    _case(SLOW, "uneven_epochs", "pause:rank=0:ms=60"),
    _case(SLOW, "trainer_callbacks", "data:rank=1:ms=60", baseline=True),
    _case(SLOW, "variable_length", "backward:rank=1:ms=60"),
    _case(RANK_0, "imagenet_schedule", "checkpoint:rank=0:ms=300:every=10"),
    _case(RANK_0, "imagenet_schedule", "checkpoint:rank=0:ms=300:every=10", 4),
    _case(RANK_0, "trainer_callbacks", "logging:rank=0:ms=200:every=8", baseline=True),
    _case(RANK_0, "loss_scaler", "pause:rank=0:ms=300:every=10"),
    _case(RANK_0, "evaluate_inside", "evaluation:rank=0:ms=300:every=10"),
    _case(ALL_PAUSE, "accumulation", "pause:rank=all:ms=300:every=12"),
    _case(ALL_PAUSE, "adasum", "pause:rank=all:ms=250:every=10"),
    _case(ALL_PAUSE, "gan", "pause:rank=all:ms=250:every=10", 4),
    _case(EVERY_KTH, "fp16_clip", "forward:rank=1:ms=200:every=5"),
    _case(EVERY_KTH, "sparse_embedding", "backward:rank=1:ms=300:every=7"),
    _case(EVERY_KTH, "gan", "data:rank=0:ms=250:every=6"),
    _case(EVERY_KTH, "variable_length", "forward:rank=2:ms=300:every=7", 4),
    _case(ANY, "manual_allreduce", "forward:rank=any:ms=250:chance=0.07"),
    _case(ANY, "adasum", "data:rank=any:ms=250:chance=0.07", 4),
    _case(ANY, "variable_length", "data:rank=any:ms=250:chance=0.07"),
    _case(ALIKE, "manual_allreduce", "backward:rank=1+3:ms=60", 4),
    _case(ALIKE, "grouped_heads", "data:rank=2+3:ms=60", 4),
    _case(ALIKE, "sync_batch_norm", "backward:rank=1+2:ms=60", 4),
    _case(DRIFT, "imagenet_schedule", "backward:rank=1:ms=80:from=30"),
    _case(DRIFT, "grouped_heads", "forward:rank=1:ms=80:from=30"),
    _case(DRIFT, "variable_length", "forward:rank=1:ms=80:from=30", 4),
    _case(PAUSES, "trainer_callbacks", "collection:rank=1:ms=200:every=8"),
    _case(PAUSES, "trainer_callbacks", "collection:rank=all:ms=200:every=10"),
    _case(PAUSES, "sparse_embedding", "pause:rank=1:ms=250:chance=0.1"),
    _case(PAUSES, "gan", "pause:rank=all:ms=250:chance=0.1"),
    _case(INPUT, "accumulation", "data:rank=all:ms=60"),
    _case(INPUT, "manual_allreduce", "data:rank=all:ms=60"),
    _case(INPUT, "loss_scaler", "data:rank=all:ms=60", 4),
    _case(PREFETCH, "mnist_dataloader", "worker:rank=1:ms=500:every=15"),
    _case(PREFETCH, "mnist_dataloader", "worker:rank=3:ms=150", 4),
    _case(UNEVEN, "uneven_epochs", "batch:rank=1:ms=250:every=12"),
    _case(UNEVEN, "uneven_epochs", "batch:rank=3:ms=250:every=12", 4),
    _case(COLD, "evaluate_inside", "cold:rank=all:ms=150", period=12),
)
