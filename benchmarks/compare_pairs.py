"""Real runs of two variants of a script: the same twice, and one slower by a known sleep.

    python -m benchmarks.compare_pairs --folder DIR [--same 40] [--slow 5] [--write PAGE]

Each comparison is one ``hvdprof compare --run`` on 2 ranks with at most 6 launches a side. The work
of the script sleeps (benchmarks/scripts/accumulation.py), so a share of a step is known:
rank 1 sleeps that much longer in its forward phase. Results are kept in the folder, and a
comparison that is there is not measured again.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page_section import write_section

SCRIPT = Path(__file__).parent / "scripts" / "accumulation.py"
STEP_MS = 85.0
"""Step time of the script without a fault on an idle machine."""

SHARES = (0.02, 0.05, 0.1)
SECTION = "compare-pairs"


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
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cases = [Case(0.0, number) for number in range(given.same)]
    cases += [Case(share, number) for share in SHARES for number in range(given.slow)]
    results = {case: _result(case, given.folder) for case in cases}
    text = "\n".join(_table(results))
    if given.write is None:
        print(text)
    else:
        write_section(given.write, SECTION, text)


def _result(case: Case, folder: Path) -> dict[str, object]:
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
    found: dict[str, object] = json.loads(path.read_text())
    return found


def _table(results: dict[Case, dict[str, object]]) -> Iterator[str]:
    outcomes = ("regressed", "improved", "equal", "inconclusive")
    yield f"| second variant | comparisons | {' | '.join(outcomes)} | rank and phase named |"
    yield f"|---|---|{'---|' * len(outcomes)}---|"
    for share in (0.0, *SHARES):
        own = [found for case, found in results.items() if case.share == share]
        if not own:
            continue
        counts = Counter(str(found["outcome"]) for found in own)
        named = sum("rank 1, forward phase" in str(found["sentence"]) for found in own)
        what = f"slower by {100 * share:.0f} % of a step" if share else "the same"
        numbers = " | ".join(str(counts[one]) for one in outcomes)
        yield f"| {what} | {len(own)} | {numbers} | {named if share else '-'} |"


if __name__ == "__main__":
    main()
