"""Rules on the evidence itself: what was done to a run on purpose, and clocks that contradict.

Tested in ``tests/analyze/findings/test_run_findings.py``.
"""

from collections.abc import Iterator

from hvdprof.analyze.findings.advice import advice, unset
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding
from hvdprof.model.launch_key import LAUNCH
from hvdprof.model.notes import NoteCode
from hvdprof.rank_names import ranks_named

_CHECK_CLOCKS = advice(
    "check the hosts' clocks with `chronyc tracking`, let them settle, and measure again",
    "Do not suspend or migrate a machine meanwhile. Ignore `caused_wait` and `collective_arrivals` "
    "of these launches (`stragglers` needs no common clock).",
    command="chronyc tracking",
)


def faults_injected(evidence: Evidence) -> Iterator[Finding]:
    """Recordings that say that faults were injected into them."""
    notes = [note for note in evidence.run.notes if note.code == NoteCode.FAULTS_INJECTED]
    if notes:
        faults = dict.fromkeys(note.value for note in notes)
        number = len({note.pass_id for note in notes})
        yield Finding(
            "faults-injected",
            "warning",
            "run",
            "faults injected on purpose",
            f"Faults were injected on purpose into {number} {'pass' if number == 1 else 'passes'}: "
            f"{' and '.join(faults)}. The numbers are those of the job with these faults.",
            unset("HVDPROF_FAULTS", " and measure without `hvdprof inject` before judging the job"),
            "certain",
            quote=notes[0].text,
        )


def clocks_contradict(evidence: Evidence) -> Iterator[Finding]:
    """Clocks by which a rank left a collective before the last rank had arrived at it."""
    clocks = evidence.table("clocks")
    wrong = clocks[~clocks["consistent"]]
    if wrong.empty:
        return
    num_launches = len(clocks[LAUNCH].drop_duplicates())
    num_wrong = len(wrong[LAUNCH].drop_duplicates())
    which = ranks_named(wrong["rank"])
    yield Finding(
        "clocks-contradict",
        "warning",
        which,
        "contradicting clocks",
        f"The clock exchange is wrong for {which} in {num_wrong} of {num_launches} launches. By "
        "these clocks a rank left a collective before its last rank had arrived. Wait attribution "
        f"across hosts is unreliable there. The first of them is {wrong['pass_id'].iloc[0]} "
        "(clocks.consistent is false).",
        _CHECK_CLOCKS,
        "certain",
    )
