"""How often `hvdprof compare` names a cause that did not move, and the right one, by simulation.

    python -m benchmarks.moved_simulated [--pairs 1000] [--write docs/explain/accuracy.md]

Two runs of one cell are simulated step by step: 100 ms with 2 % of noise in every phase. In each
launch, a rank is faster or slower in forward and backward by a normal variable (placement). In the
second run rank 1, or every rank, takes longer in forward. The launches go through the code that
compares stored runs, or, where they are paired, interleaved ones.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.page_section import write_section
from hvdprof.model.arrays import FrameRow
from hvdprof.model.causes import RANK_CHANGE
from tests.builders.compared_launches import compared, launches
from tests.builders.step_works import MS

NUM_STEPS = 24
SECTION = "compare-causes"
RANK_1, ALL_RANKS = "rank 1", "all ranks"


@dataclass(frozen=True, slots=True)
class Setting:
    """Ranks, launches a side, spread of a rank's speed, and who is slower in forward by how much.

    Attributes:
        num_ranks: Ranks of both runs.
        num: Launches of each run.
        placement: Standard deviation of a rank's speed between launches.
        is_paired: Whether launches are compared by repeat.
        slower_ms: How much longer forward takes in the second run.
        who: Whose forward.
    """

    num_ranks: int
    num: int
    placement: float
    is_paired: bool = False
    slower_ms: float = 0.0
    who: str = RANK_1


HEALTHY: tuple[Setting, ...] = (
    Setting(2, 3, 0.02),
    Setting(2, 3, 0.02, is_paired=True),
    Setting(2, 6, 0.02),
    Setting(2, 6, 0.1, is_paired=True),
    Setting(4, 3, 0.05),
    Setting(4, 6, 0.05, is_paired=True),
)
SLOWER: tuple[Setting, ...] = tuple(
    Setting(num_ranks, num, placement, is_paired=True, slower_ms=5.0, who=who)
    for who in (RANK_1, ALL_RANKS)
    for num_ranks, num, placement in ((2, 3, 0.01), (2, 6, 0.01), (2, 6, 0.03), (4, 6, 0.03))
)


@dataclass(frozen=True, slots=True)
class Found:
    """Shares of the pairs.

    Attributes:
        ranks: Any rank has a term of its own.
        moved: Any term is called moved.
        right: The largest term that moved is the one that changed, and no other rank is named.
        covered: The 95 % interval of the rank's own change holds the true one, where it is named.
    """

    ranks: float
    moved: float
    right: float
    covered: float


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=1_000)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    given = parser.parse_args()
    text = "\n\n".join("\n".join(table(given.pairs)) for table in (_errors, _power))
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def _errors(num_pairs: int) -> Iterator[str]:
    yield "| ranks | launches a side | ranks differ by | any rank named | any term moved |"
    yield "|---|---|---|---|---|"
    for setting in HEALTHY:
        found = simulated(setting, num_pairs)
        yield (f"| {_what(setting)} | {100 * found.ranks:.1f} % | {100 * found.moved:.1f} % |")


def _power(num_pairs: int) -> Iterator[str]:
    yield (
        "| ranks | launches a side | ranks differ by | 5 ms slower in forward | named as such "
        "| covered by the 95 % CI |"
    )
    yield "|---|---|---|---|---|---|"
    for setting in SLOWER:
        found = simulated(setting, num_pairs)
        covered = f"{100 * found.covered:.1f} %" if setting.who == RANK_1 else "-"
        yield (f"| {_what(setting)} | {setting.who} | {100 * found.right:.0f} % | {covered} |")


def _what(setting: Setting) -> str:
    pairs = ", paired" if setting.is_paired else ""
    return f"{setting.num_ranks} | {setting.num}{pairs} | {100 * setting.placement:.0f} %"


def simulated(setting: Setting, num_pairs: int) -> Found:
    """What the comparisons of so many pairs of runs say.

    Args:
        setting: Both runs.
        num_pairs: Simulated pairs.
    """
    pairs = [_pair(setting, number) for number in range(num_pairs)]
    named = [[row for row in rows if row["term"] == RANK_CHANGE] for rows in pairs]
    moved = [[row for row in rows if row["moved"]] for rows in pairs]
    true_ns = setting.slower_ms * MS
    own = [
        row for rows in named for row in rows if (row["ranks"], row["phase"]) == ("1", "forward")
    ]
    covered = [row["own_change_low_ns"] <= true_ns <= row["own_change_high_ns"] for row in own]
    return Found(
        ranks=float(np.mean([bool(rows) for rows in named])),
        moved=float(np.mean([bool(rows) for rows in moved])),
        right=float(
            np.mean([_is_right(setting, *both) for both in zip(named, moved, strict=True)])
        ),
        covered=float(np.mean(covered)) if covered else float("nan"),
    )


def _is_right(setting: Setting, named: list[FrameRow], moved: list[FrameRow]) -> bool:
    if not moved:
        return False
    if setting.who == ALL_RANKS:
        return not named and moved[0]["term"] == "forward"
    names = [(row["ranks"], row["phase"]) for row in named]
    return names == [("1", "forward")] and moved[0]["term"] == RANK_CHANGE


def _pair(setting: Setting, number: int) -> list[FrameRow]:
    slower = np.full(setting.num_ranks, setting.slower_ms)
    if setting.who == RANK_1:
        slower[np.arange(setting.num_ranks) != 1] = 0.0
    sides = [
        launches(
            setting.num,
            num_ranks=setting.num_ranks,
            extra_ms={"forward": extra},
            placement=setting.placement,
            num_steps=NUM_STEPS,
            seed=2 * number + side,
        )
        for side, extra in enumerate((np.zeros(setting.num_ranks), slower))
    ]
    return list(compared(*sides, is_paired=setting.is_paired).to_dict("records"))


if __name__ == "__main__":
    main()
