"""Real runs of two variants of a script: the same twice, and one slower by a known sleep.

    python -m benchmarks.compare_pairs --folder DIR [--same 40] [--slow 5] [--again] [--write PAGE]

Each comparison is one ``hvdprof compare --run`` on 2 ranks with at most 6 launches a side. The work
of the script sleeps (benchmarks/scripts/accumulation.py), so a share of a step is known:
rank 1 sleeps that much longer in its forward phase. Results are kept in the folder, and a
comparison that is there is not measured again. With ``--again`` nothing is measured: the kept
recordings are compared by the present code, and those that are not kept are left out.

Tested in ``tests/benchmarks/test_compare_pairs.py``.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from benchmarks.page_section import write_section

SCRIPT = Path(__file__).parent / "scripts" / "accumulation.py"
STEP_MS = 85.0
"""Step time of the script without a fault on an idle machine."""

SHARES = (0.02, 0.05, 0.1)
SECTION = "compare-pairs"
FAULT = ("1", "forward")
"""The rank and the phase that the second variant delays."""


class Result(TypedDict):
    """What is used of the JSON object of a comparison."""

    outcome: str
    causes: list[dict[str, str | float | bool | None]]


@dataclass(frozen=True, slots=True)
class Case:
    """A comparison: the share of a step by which the second variant is slower, and its number."""

    share: float
    number: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{'same' if not self.share else f'slow{100 * self.share:.0f}'}-{self.number:02d}"


def main() -> None:
    """Measure what is missing, and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--same", type=int, default=40, help="comparisons of the same variant")
    parser.add_argument("--slow", type=int, default=5, help="comparisons for each share")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    parser.add_argument("--again", action="store_true", help="compare the kept recordings anew")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cases = [Case(0.0, number) for number in range(given.same)]
    cases += [Case(share, number) for share in SHARES for number in range(given.slow)]
    read = compared_again if given.again else _result
    found = {case: read(case, given.folder) for case in cases}
    results = {case: result for case, result in found.items() if result is not None}
    missing = [case.name for case in cases if case not in results]
    if missing:
        print(f"No recording: {', '.join(missing)}", file=sys.stderr)
    text = "\n".join(table(results))
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def compared_again(case: Case, folder: Path) -> Result | None:
    """The comparison of the kept recordings as JSON; None where they are not kept."""
    sides = [folder / case.name / name for name in ("a", "b")]
    if not all(side.is_dir() for side in sides):
        return None
    command = [sys.executable, "-m", "hvdprof", "compare", *map(str, sides), "--format", "json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: Result = json.loads(done.stdout)
    return found


def _result(case: Case, folder: Path) -> Result | None:
    """The comparison as JSON; measured where it is not there."""
    path = folder / f"{case.name}.json"
    if not path.exists():
        fault = ["--fault", f"forward:rank=1:ms={STEP_MS * case.share:g}"] if case.share else []
        script = [sys.executable, str(SCRIPT)]
        subprocess.run(
            [
                *(sys.executable, "-m", "hvdprof", "compare", "--run", "--np", "2", "-q"),
                *("--no-trace", "--no-net", "--num-steps", "40", "--repeats", "6"),
                *("--env-b", "PAIR=1", "--runs", str(folder / case.name), "-o", str(path)),
                *("--", *script, "--against", "--", *script, *fault),
            ],
            check=True,
        )
    found: Result = json.loads(path.read_text())
    return found


def table(results: Mapping[Case, Result]) -> Iterator[str]:
    """A line for each share: outcomes, and which ranks were named with which phase and time.

    Args:
        results: The comparisons as JSON.
    """
    outcomes = ("regressed", "improved", "equal", "inconclusive")
    yield (
        f"| second variant | comparisons | {' | '.join(outcomes)} | rank 1, forward named "
        "| any other rank or phase named | slept, ms | found, ms (median, range) |"
    )
    yield f"|---|---|{'---|' * len(outcomes)}---|---|---|---|"
    for share in (0.0, *SHARES):
        own = [found for case, found in results.items() if case.share == share]
        if not own:
            continue
        counts = Counter(str(found["outcome"]) for found in own)
        named = [_named_ranks(found) for found in own]
        right = [ms for ranks in named for where, ms in ranks.items() if where == FAULT]
        wrong = (
            sum(bool(set(ranks) - {FAULT}) for ranks in named) if share else sum(map(bool, named))
        )
        what = f"slower by {100 * share:.0f} % of a step" if share else "the same"
        numbers = " | ".join(str(counts[one]) for one in outcomes)
        times = f"{STEP_MS * share:.2f} | {_times(right)}" if share else "- | -"
        yield (
            f"| {what} | {len(own)} | {numbers} | {len(right) if share else '-'} | {wrong} "
            f"| {times} |"
        )


def _named_ranks(found: Result) -> dict[tuple[str, str], float]:
    """The ranks that the comparison says have moved: rank and phase, and by how many ms."""
    return {
        (str(row["ranks"]), str(row["phase"])): float(row["own_change_ns"] or 0.0) / 1e6
        for row in found["causes"]
        if row["term"] == "rank-change" and row["moved"]
    }


def _times(found: Sequence[float]) -> str:
    if not found:
        return "-"
    return f"{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})"


if __name__ == "__main__":
    main()
