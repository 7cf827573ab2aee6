"""Files of other tools on a first screen: their first numbers, and those attached to a run."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from hvdprof import units
from hvdprof.model.file_page import Fact, FilePage
from hvdprof.model.run import RunAnalysis
from hvdprof.model.sources import SOURCES, Role, ShownFact
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.finding_texts import first_clause
from hvdprof.report.screen.tiles import BAD, CAUSE_TITLE, CAUTION, GOOD, TRUST_WORDS, Tile

MOST_TILES = 5

_SMALLEST_SHARE = 0.05
_SHOWN = tuple(shown for source in SOURCES for shown in source.shown)


def file_tiles(page: FilePage) -> tuple[Tile, ...]:
    """At most five tiles of what the facts of a file say; none where they say nothing.

    What is wrong comes first and how far to trust the numbers last.
    """
    facts = {fact.name: _Shown(fact) for fact in page.facts if _is_known(fact)}
    by_title: dict[str, Tile] = {}
    for tile in (*_tiles(facts, Role.BAD), *_cause(facts), *_tiles(facts)):
        by_title.setdefault(tile.title, tile)
    if not by_title:
        return ()
    shown = tuple(by_title.values())[: MOST_TILES - 1]
    tone, reason = _trust(page, facts)
    # A failure that a log states needs no judgement of numbers; without a verdict that of the run
    # holds the caveat.
    if tone == GOOD and (not page.verdict or all(tile.tone in (BAD, CAUTION) for tile in shown)):
        return shown
    return (*shown, Tile("Trust", TRUST_WORDS[tone], reason, tone))


def _is_known(fact: Fact) -> bool:
    return bool(fact.text) or (fact.value is not None and fact.value == fact.value)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A fact in a template: as the form or the noun behind the colon says, else with its unit."""

    fact: Fact

    @property
    def number(self) -> float:
        """Its value; 0 where that is no number."""
        value = self.fact.value
        return float(value) if isinstance(value, int | float) else 0.0

    def __format__(self, form: str) -> str:
        value = "" if self.fact.value is None else str(self.fact.value)
        forms = {
            "ranks": lambda: f"rank{'' if value.isdigit() else 's'} {value}",
            "count": lambda: units.count(self.number),
            "percent": lambda: units.percent(self.number),
            "ms": lambda: units.milliseconds(self.number),
            "seconds": lambda: units.seconds(self.number),
            "size": lambda: units.byte_size(self.number),
            "text": lambda: self.fact.text,
        }
        if form in forms:
            return forms[form]()
        if form:
            return units.counted(int(self.number), form)
        is_text = isinstance(self.fact.value, str)
        return value if is_text else units.of_unit(self.number, self.fact.unit)


Facts = Mapping[str, _Shown]


def _tiles(facts: Facts, role: Role | None = None) -> Iterator[Tile]:
    """The tiles of what is bad; or of all that is neither bad nor a cause nor limits trust."""
    apart = (Role.BAD, Role.CAUSE, Role.TRUST)
    for shown in _SHOWN:
        if shown.fact not in facts or shown.unless in facts:
            continue
        fact, tone = facts[shown.fact], ""
        if shown.role != role and (role or shown.role in apart):
            continue
        if role and fact.fact.value in (0, None, "", "no"):
            continue
        if role:
            tone = BAD
        elif shown.role is Role.DOUBT:
            is_doubt = _is_below(shown, facts) if shown.below else fact.number > 0
            tone = CAUTION if is_doubt else "" if shown.below else GOOD
        value = _filled(shown.text, facts) if shown.text else f"{fact}"
        if value:
            yield Tile(shown.title, value, _detail(shown, facts), tone)


def _is_below(shown: ShownFact, facts: Facts) -> bool:
    other = facts.get(str(shown.below))
    limit = other.number if other else shown.below
    return isinstance(limit, int | float) and limit > 0 and facts[shown.fact].number < limit


def _filled(text: str, facts: Facts) -> str:
    """A template with its facts; empty where one of them is unknown."""
    try:
        return text.format_map(facts)
    except KeyError:
        return ""


def _detail(shown: ShownFact, facts: Facts) -> str:
    known = {name: fact for name, fact in facts.items() if fact.fact.value not in (0, "")}
    return "".join(_filled(part, known) for part in shown.details).lstrip(" ,")


def _cause(facts: Facts) -> Iterator[Tile]:
    """What takes most of the steady time of a timeline."""
    causes = [
        shown
        for shown in _SHOWN
        if shown.role is Role.CAUSE and shown.fact in facts and shown.unless not in facts
    ]
    if not causes:
        return
    largest = max(causes, key=lambda shown: facts[shown.fact].number)
    share = facts[largest.fact].number
    if share < _SMALLEST_SHARE:
        yield Tile(CAUSE_TITLE, "none", "no cause of 5 % of the time or more")
        return
    name = "".join([largest.title, *(_filled(part, facts) for part in largest.details)])
    yield Tile(CAUSE_TITLE, f"{units.percent(share)} of the time", name)


def _trust(page: FilePage, facts: Facts) -> tuple[str, str]:
    """How far the numbers can be trusted, and what limits it most."""
    if not page.has_numbers:
        return BAD, first_clause(page.verdict)
    if page.caveat:
        return CAUTION, first_clause(page.caveat)
    for shown in _SHOWN:
        if shown.role is Role.TRUST and shown.fact in facts:
            fact = facts[shown.fact]
            if _is_below(shown, facts) if shown.below else fact.fact.value not in (0, ""):
                return CAUTION, _filled(shown.title, facts)
    return GOOD, "no caveat for this file"


def attached_pages(analysis: RunAnalysis) -> list[FilePage]:
    """The pages, without a verdict and its caveat where those of the run hold them."""
    said = analysis.verdict.sentence
    return [
        replace(page, verdict="", caveat="") if page.verdict and page.verdict in said else page
        for page in analysis.pages
    ]


def is_of_files_alone(analysis: RunAnalysis) -> bool:
    """Whether there are attached files and no throughput, so that its tiles would be empty."""
    return analysis.scaling.empty and bool(analysis.pages)


def has_comparison(analysis: RunAnalysis) -> bool:
    """Whether a cell has a baseline or a waterfall; traces of another tool have neither.

    A run without any cell counts, too: its figures say that nothing was measured.
    """
    if is_of_files_alone(analysis):
        return False
    known = analysis.scaling["efficiency"].notna()
    is_empty = analysis.scaling.empty
    return is_empty or bool(known.any()) or not analysis.table(WATERFALL.name).empty
