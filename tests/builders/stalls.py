"""Stalls of two ranks in which a job ended."""

from hvdprof.launch.diagnose.stall import Stall, StalledRank


def stall_at_end(late: StalledRank, waited_s: float) -> Stall:
    """Rank 0 had waited so long for the other one, in its step, when the job ended."""
    return Stall(
        number=0,
        segment="main",
        step=late.step,
        time_ns=0,
        waited_s=waited_s,
        waiting=[0],
        late=[late],
        at_end=True,
    )
