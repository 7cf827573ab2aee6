"""Rules on named causes: stragglers, delays now and then, pauses of all ranks."""

from collections.abc import Iterator

from hvdprof import units
from hvdprof.analyze.findings.advice import (
    END_OTHER_PROCESSES,
    Advice,
    in_turn,
    sentences,
)
from hvdprof.analyze.findings.cause_advice import (
    BEFORE_UPDATE,
    EVALUATION,
    MIXED,
    OUTSIDE,
    cause_advice,
    hosts_of_cause,
    is_crowded,
    is_slow,
)
from hvdprof.analyze.findings.cell_finding import (
    NO_DATA_PHASE,
    CostlyCause,
    cell_name,
    cell_place,
    costly_causes,
    crowding,
    has_data_phase,
    mark_data,
    raises_efficiency,
)
from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.finding import Finding, severity_of_cost
from hvdprof.analyze.findings.input_evidence import InputEvidence, input_evidence
from hvdprof.analyze.findings.line_evidence import line_evidence
from hvdprof.analyze.findings.machine_evidence import machine_evidence
from hvdprof.analyze.findings.uneven_batches import uneven_batches
from hvdprof.analyze.ranks.named_cause import (
    IRREGULAR,
    LASTING,
    PERSISTENT,
)
from hvdprof.analyze.steps.measured_launches import is_light, row_noun
from hvdprof.model.arrays import FrameRow, is_missing
from hvdprof.model.cause_names import FEW_EVENTS, cause_title, ranks_of
from hvdprof.model.causes import PAUSE, STRAGGLER
from hvdprof.model.tables.waterfall_tables import SEEN
from hvdprof.rank_names import ranks_named


def named_causes(evidence: Evidence) -> Iterator[Finding]:
    """Stragglers and pauses of WATERFALL, one finding per row.

    Cells with more ranks than cores count, too, with a caveat unless their ranks mostly sleep or
    wait.
    """
    for cause in costly_causes(evidence, STRAGGLER, PAUSE, oversubscribed=True):
        crowded, sharing = is_crowded(evidence, cause), crowding(evidence.run, cause.cell)
        is_between = cause.row["phase"] == OUTSIDE
        may_be_data = is_between and not has_data_phase(evidence, cause.cell)
        # A pause now and then is hardly the input; a rank that is always late may well load slowly.
        loads_slowly = may_be_data and cause.row["pattern"] in LASTING
        uneven = None
        if cause.row["pattern"] in LASTING and ranks_of(cause.row):
            uneven = uneven_batches(evidence, cause.cell, ranks_of(cause.row))
        lines, machine = line_evidence(evidence, cause), machine_evidence(evidence, cause)
        stages = InputEvidence("", Advice())
        if cause.row["phase"] == "data":
            stages = input_evidence(evidence, cause.cell, ranks_of(cause.row))
        # The other ranks load without workers as well, and in time: what differs is the line.
        line_first = stages.has_none or stages.is_waiting
        first = (lines.fix, stages.advice) if line_first else (stages.advice, lines.fix)
        is_random = cause.row["pattern"] == IRREGULAR and not machine.beyond_cores
        # A line that takes longer because its core or its clock does is not what to change.
        action = (
            machine.fix
            if machine.fix.text
            else in_turn(
                # A rank without a core stands in any line.
                END_OTHER_PROCESSES if crowded and is_random else machine.check,
                *first,
                uneven.fix if uneven else Advice(),
                mark_data(evidence.run) if loads_slowly else Advice(),
                Advice()
                if stages.advice.text or (machine.check.text and is_slow(cause.row))
                else cause_advice(evidence, cause, machine),
                mark_data(evidence.run) if may_be_data and not loads_slowly else Advice(),
            )
        )
        title, detail = cause_title(cause.row)
        yield Finding(
            _id(cause),
            severity_of_cost(cause.share),
            _subject(cause),
            title,
            sentences(
                _what(evidence, cause),
                _how_often(cause, int(cause.cell["num_launches"])),
                _by_chance(cause),
                _explained(str(cause.row["phase"]), float(cause.row["phase_share"])),
                machine.sentence,
                stages.sentence,
                lines.sentence,
                uneven.sentence if uneven else "",
                NO_DATA_PHASE if may_be_data else "",
                raises_efficiency(evidence, cause.cell) if cause.row["np"] < 2 else "",
                sharing,
            ),
            action,
            _confidence(cause, disturbed=crowded or bool(sharing)),
            detail=detail,
            **cause.cost,
            **lines.columns,
        )


def _id(cause: CostlyCause) -> str:
    if cause.row["term"] == PAUSE:
        return "stalled-steps"
    lasts = cause.row["pattern"] in LASTING
    return "persistent-straggler" if lasts else "transient-straggler"


def _subject(cause: CostlyCause) -> str:
    ranks = ranks_of(cause.row)
    return ranks_named(ranks) if ranks else cell_name(cause.cell)


def _confidence(cause: CostlyCause, *, disturbed: bool) -> str:
    sure = int(cause.row["num_launches"]) > 1 and not disturbed
    return "likely" if sure else "possible"


def _what(evidence: Evidence, cause: CostlyCause) -> str:
    row, ranks = cause.row, ranks_of(cause.row)
    often = units.percent(float(row["affected_share"]), 0)
    late = units.milliseconds(float(row["delay_ns"]))
    place, of_rows = cell_place(cause.cell), f"{often} of the {row_noun(evidence.run)}"
    if is_light(evidence.run):
        late += " per step"
    if row["term"] == PAUSE:
        who = "all ranks pause" if row["np"] > 1 else "the rank pauses"
        return f"{place}: {who} in {of_rows}, for {late} each."
    if not ranks:
        return f"{place}: in {of_rows} one of the ranks is late, by {late}."
    who = f"{ranks_named(ranks)}{hosts_of_cause(evidence, cause)}"
    if len(ranks) == 1 and row["pattern"] == PERSISTENT:
        # The cost says by how much: a median beside that mean reads as a contradiction.
        return f"{place}: the other ranks wait for {who} in {of_rows}."
    each = "each " if len(ranks) > 1 else ""
    return f"{place}: the other ranks wait for {who} in {of_rows}, {each}by {late}."


def _how_often(cause: CostlyCause, num_launches: int) -> str:
    row = cause.row
    seen = f"in {int(row['num_launches'])} of {num_launches} launches"
    number = int(row["num_events"])
    match row["pattern"]:
        case "periodic":
            events = "1 event" if number == 1 else f"{units.count(number)} events"
            return f"There are {events} {seen}, {_distance(row)}."
        case "irregular":
            events = "is 1 event" if number == 1 else f"are {units.count(number)} events"
            how = ", at no regular distance" if number >= FEW_EVENTS else ""
            return f"There {events} {seen}{how}."
        case "from-step":
            return f"It begins at step {int(row['first_step'])}, {seen}."
        case "for-a-while":
            first, last = int(row["first_step"]), int(row["last_step"])
            return f"It lasts from step {first} to step {last}, {seen}."
        case "growing":
            last_delay = units.milliseconds(float(row["last_delay_ns"]))
            return f"It grows from step {int(row['first_step'])} on, to {last_delay}, {seen}."
    return f"This holds {seen}."


def _by_chance(cause: CostlyCause) -> str:
    """How often chance gives one rank all of few events: that they happened is certain."""
    if cause.row["state"] != SEEN:
        return ""
    if cause.row["num_events"] == 1 or float(cause.row["chance"]) >= 1:
        return "One event does not show that the rank has more of them than others."
    share = units.percent(float(cause.row["chance"]))
    return f"Of equal ranks, one has all of them by chance in {share} of such runs."


def _distance(row: FrameRow) -> str:
    steps = f"at a distance of {float(row['period_steps']):.0f} steps"
    if is_missing(row["epoch_steps"]):
        return steps
    return f"{steps} from the begin of each epoch of {float(row['epoch_steps']):.0f}"


def _explained(phase: str, share: float) -> str:
    """How much of the delay a phase explains; beyond all of it, other phases offset some."""
    which = "The largest phase" if phase == MIXED else f"The {phase} phase"
    if phase == BEFORE_UPDATE:
        which = "Time between backward and the update"
    if phase in (OUTSIDE, EVALUATION):
        which = "Time between steps"
    if phase == EVALUATION:
        which += " with an evaluation"
    if is_missing(share):
        return ""
    if share > 1.005:
        more = units.percent(share - 1, 0)
        return f"{which} explains all of the delay, and {more} more that other phases offset."
    return f"{which} explains {units.percent(share, 0)} of the delay."
