"""The first numbers of a standalone file: what is wrong, shares of the time, bandwidth, trust."""

from collections.abc import Callable, Mapping

from hvdprof import units
from hvdprof.model.file_page import Fact, FilePage
from hvdprof.report.screen.tiles import BAD, CAUSE_TITLE, CAUTION, GOOD, TRUST_WORDS, Tile
from hvdprof.report.sentence_ends import first_clause

MOST_TILES = 5

Facts = Mapping[str, Fact]
_TRUST = "Trust"
_SMALLEST_SHARE = 0.05
_FEW_STEPS = 10


def file_tiles(page: FilePage) -> tuple[Tile, ...]:
    """At most five tiles of what the facts of a file say; none where they say nothing.

    What is wrong comes first and how far to trust the numbers last.

    Args:
        page: The page of the file.
    """
    facts = {fact.name: fact for fact in page.facts if _is_known(fact)}
    found = [tile for make in _TILES if (tile := make(facts)) is not None]
    if not found:
        return ()
    shown, trust = found[: MOST_TILES - 1], _trust(page, facts)
    # A failure that a log states needs no judgement of numbers.
    if trust.tone == GOOD and all(tile.tone in (BAD, CAUTION) for tile in shown):
        return tuple(shown)
    return (*shown, trust)


def _is_known(fact: Fact) -> bool:
    return bool(fact.text) or (fact.value is not None and fact.value == fact.value)


def _hang(facts: Facts) -> Tile | None:
    if "hang_ranks" in facts:
        blocked = units.counted(int(_number(facts, "num_blocked")), "other rank")
        return Tile("Hang", _ranks(facts, "hang_ranks"), f"{blocked} blocked", BAD)
    if "num_pending" in facts:
        number, text = _number(facts, "num_pending"), facts["num_pending"].text
        return Tile("Pending at the end", units.counted(int(number), "tensor"), text, BAD)
    return None


def _timeouts(facts: Facts) -> Tile | None:
    number = _number(facts, "num_timeouts")
    if not number:
        return None
    parts = [_text(facts, "timeout_operations")]
    parts += [f"on {_ranks(facts, 'timeout_ranks')}"] if "timeout_ranks" in facts else []
    return Tile("Collective timeouts", units.count(number), " ".join(filter(None, parts)), BAD)


def _stalls(facts: Facts) -> Tile | None:
    number = _number(facts, "num_stall_warnings")
    if not number:
        return None
    waited = _number(facts, "waited_s")
    missing = "missing_ranks" in facts
    parts = [f"not submitted by {_ranks(facts, 'missing_ranks')}"] if missing else []
    parts += [f"for {units.seconds(waited)} or more"] if waited else []
    return Tile("Stall warnings", units.count(number), ", ".join(parts), BAD)


def _behind(facts: Facts) -> Tile | None:
    for name, title in (("silent_ranks", "Without an answer"), ("behind_ranks", "Ranks behind")):
        if name in facts:
            return Tile(title, _ranks(facts, name), "in the RAS report of NCCL", BAD)
    return None


def _failure(facts: Facts) -> Tile | None:
    if "process_end" in facts:
        return Tile("First end of a process", _text(facts, "process_end"), "", BAD)
    if _text(facts, "failed") == "yes" or _number(facts, "num_wrong"):
        number = int(_number(facts, "num_wrong"))
        detail = units.counted(number, "wrong element") if number else ""
        return Tile("Result", "failed", detail, BAD)
    return None


def _nccl_problems(facts: Facts) -> Tile | None:
    number = _number(facts, "num_problems")
    if "num_problems" not in facts:
        return None
    return Tile("NCCL warnings and errors", units.count(number), "", CAUTION if number else GOOD)


def _cause(facts: Facts) -> Tile | None:
    """What takes most of the steady time of a timeline."""
    shares = {
        "waiting for the last rank": _number(facts, "waiting_share"),
        "collectives": _number(facts, "executing_steady_share"),
    }
    if "waiting_share" not in facts:
        shares["negotiation"] = _number(facts, "negotiating_share")
    if not {"waiting_share", "executing_steady_share", "negotiating_share"} & facts.keys():
        return None
    name, share = max(shares.items(), key=lambda item: item[1])
    if share < _SMALLEST_SHARE:
        return Tile(CAUSE_TITLE, "none", "no cause of 5 % of the time or more")
    if name == "waiting for the last rank" and "most_waited_for" in facts:
        name += f", mostly rank {facts['most_waited_for'].value}"
    return Tile(CAUSE_TITLE, f"{units.percent(share)} of the time", name)


def _negotiation(facts: Facts) -> Tile | None:
    return _share(facts, "Negotiation", "negotiating_share", "time", "negotiation_p95_ns")


def _executing(facts: Facts) -> Tile | None:
    return _share(facts, "Collectives", "executing_share", "file", "execution_p95_ns")


def _share(facts: Facts, title: str, share: str, whole: str, p95_ns: str) -> Tile | None:
    if share not in facts:
        return None
    # A file without a steady part has no percentile.
    longest = f"p95 {units.milliseconds(_number(facts, p95_ns))}" if p95_ns in facts else ""
    return Tile(title, f"{units.percent(_number(facts, share))} of the {whole}", longest)


def _exposed(facts: Facts) -> Tile | None:
    for name in ("exposed_share", "blocked_share"):
        if name in facts:
            share = units.percent(_number(facts, name))
            what = (
                "most of one GPU" if name == "exposed_share" else "of the steady steps, all ranks"
            )
            return Tile("Exposed communication", share, what)
    return None


def _bandwidth(facts: Facts) -> Tile | None:
    if "peak_busbw_gb_s" in facts:
        size = _number(facts, "peak_size_bytes")
        at = f"at {units.byte_size(size)}" if size else ""
        return Tile("Peak busbw", _value(facts["peak_busbw_gb_s"]), at)
    if "payload_bytes_per_s" in facts:
        rate = f"{units.byte_size(_number(facts, 'payload_bytes_per_s'))}/s"
        return Tile("Payload bandwidth", rate, "payload divided by time in collectives")
    return None


def _plain(name: str, title: str, detail: str = "") -> Callable[[Facts], Tile | None]:
    def make(facts: Facts) -> Tile | None:
        return Tile(title, _value(facts[name]), detail) if name in facts else None

    return make


def _inits(facts: Facts) -> Tile | None:
    if not _number(facts, "num_nccl_ranks") or "num_complete" not in facts:
        return None
    done, ranks = (int(_number(facts, name)) for name in ("num_complete", "num_nccl_ranks"))
    text = f"{units.count(done)} of {units.count(ranks)}"
    detail = "communicator inits of the ranks in the log"
    return Tile("Inits completed", text, detail, CAUTION if done < ranks else "")


_TILES: tuple[Callable[[Facts], Tile | None], ...] = (
    _hang,
    _timeouts,
    _stalls,
    _behind,
    _failure,
    _cause,
    _exposed,
    _negotiation,
    _bandwidth,
    _executing,
    _nccl_problems,
    _plain("avg_busbw_gb_s", "Average busbw", "over all sizes"),
    _plain("total_samples_per_s", "Throughput", "total as printed"),
    _plain("iteration_median_ns", "Iteration, median"),
    _plain("step_median_ns", "Step, median"),
    _plain("best_score", "Best score of autotuning", "reduced bytes per time"),
    _inits,
    _plain("transports", "NCCL transports"),
    _plain("num_ranks", "Ranks recorded"),
    _plain("num_steps", "Steps", "of all ranks"),
)
"""The tiles in order of their weight, each where the facts hold what it shows."""


def _trust(page: FilePage, facts: Facts) -> Tile:
    tone, reason = _tone(page, facts)
    return Tile(_TRUST, TRUST_WORDS[tone], reason, tone)


def _tone(page: FilePage, facts: Facts) -> tuple[str, str]:
    if not page.has_numbers:
        return BAD, first_clause(page.verdict)
    unknown, lines = (_number(facts, name) for name in ("num_not_understood", "num_nccl_lines"))
    if page.caveat:
        return CAUTION, first_clause(page.caveat)
    if unknown:
        counted = f"{units.count(unknown)} of {units.count(lines)} NCCL lines not understood"
        return CAUTION, counted
    if "missing_dumps" in facts:
        return CAUTION, f"no dump of {_text(facts, 'missing_dumps')}"
    num_steps = _number(facts, "num_steps")
    if 0 < num_steps < _FEW_STEPS:
        return CAUTION, f"only {units.counted(int(num_steps), 'step')}"
    if "ended" in facts and _number(facts, "ended") < _number(facts, "num_ranks"):
        return CAUTION, "not every rank ended on its own"
    return GOOD, "no caveat for this file"


def _number(facts: Facts, name: str) -> float:
    """The value of a fact as a number; 0 where there is none."""
    value = facts[name].value if name in facts else None
    return float(value) if isinstance(value, int | float) else 0.0


def _text(facts: Facts, name: str) -> str:
    value = facts[name].value if name in facts else None
    return "" if value is None else str(value)


def _ranks(facts: Facts, name: str) -> str:
    ranks = _text(facts, name)
    return f"rank {ranks}" if ranks.isdigit() else f"ranks {ranks}"


def _value(fact: Fact) -> str:
    if isinstance(fact.value, int | float):
        return units.of_unit(fact.value, fact.unit)
    return str(fact.value)
