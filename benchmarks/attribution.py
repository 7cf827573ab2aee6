"""How often the right rank and phase are named: real Horovod runs with faults of known truth.

``python -m benchmarks.attribution --folder DIR`` runs every case of the grid that DIR does not hold
yet (``cases.jsonl``) and prints the table of docs/explain/accuracy.md. ``--quick`` takes few cases;
``--budget`` starts no new case after that many seconds. A case is one launch of an emulated model
under ``hvdprof inject``, analysed through ``hvdprof.api``; its throughput pass counts. Runs are
kept: another call analyses them again.
``attribution_simulated.py`` does the same on thousands of simulated launches.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.case_table import CLOCK, DRIFT_PPM, OFFSET_MS, Result, table
from benchmarks.page_section import write_section
from hvdprof import api
from hvdprof.errors import HvdprofError
from hvdprof.model.cause_names import ranks_of
from hvdprof.model.causes import STRAGGLER
from hvdprof.model.tables.waiting_tables import STRAGGLER_PATTERNS
from hvdprof.rundir.written_file import write_whole

MODEL_S = 0.06
SIZES = (0.1, 0.2, 0.05, 0.5, 0.02)
PHASES = ("backward", "forward", "data", "optimizer", "outside")
NUM_STEPS = 40
MOST_FAILURES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A launch and its truth; ``share`` is of the step, 0 for a clean run."""

    np: int
    phase: str
    rank: int
    share: float
    every: int
    repeat: int

    @property
    def name(self) -> str:
        """A name that no other case of the grid has."""
        if not self.share:
            return f"np{self.np}-{self.phase or 'clean'}-{self.repeat}"
        percent = f"{self.share:.0%}".rstrip("%")
        return f"np{self.np}-{self.phase}-rank{self.rank}-{percent}-every{self.every}-{self.repeat}"

    @property
    def fault(self) -> str:
        """The fault as `hvdprof inject` takes it."""
        if self.phase == CLOCK:
            sign = "-" if self.repeat % 2 else ""
            return (
                f"clock:rank={self.rank},offset={sign}{OFFSET_MS:g}ms,drift={sign}{DRIFT_PPM:g}ppm"
            )
        what = "pause:" if self.phase == "outside" else f"sleep:phase={self.phase},"
        amount_ms = self.share * MODEL_S * 1e3
        return f"{what}rank={self.rank},amount={amount_ms:g}ms,every={self.every}"


def grid(quick: bool) -> list[Case]:
    """The cases, those that matter most first."""
    worlds = (2,) if quick else (2, 4, 8)
    sizes = SIZES[:2] if quick else SIZES
    cases = []
    # Size by size and not world by world, so that a budget cuts sizes and not whole worlds off.
    for number, size in enumerate(sizes):
        for ranks in worlds:
            cases += [
                Case(np=ranks, phase=phase, rank=ranks - 1, share=size, every=1, repeat=0)
                for phase in PHASES
            ]
            cases += [
                Case(np=ranks, phase=phase, rank=rank, share=0, every=1, repeat=2 * number + again)
                for phase, rank in (("", -1), *([(CLOCK, ranks - 1)] if not number else []))
                for again in range(2)
            ]
    if not quick:
        cases += [
            Case(np=ranks, phase=phase, rank=rank, share=share, every=every, repeat=0)
            for ranks in worlds
            for phase in PHASES
            for rank, share, every in ((0, 0.2, 1), (ranks - 1, 0.5, 4))
        ]
    return cases


class CaseFailedError(Exception):
    """A case gave no result; it is run again the next time."""


def run_case(case: Case, folder: Path) -> Result:
    """Launch a case into a folder of its name; its truth.

    Raises:
        CaseFailedError: The launch failed.
    """
    run = folder / case.name
    if run.exists():
        # Of an attempt that did not come to its end: a result would be in cases.jsonl.
        shutil.rmtree(run)
    hvdprof = [sys.executable, "-m", "hvdprof"]
    command = [
        *(*hvdprof, "bench", "--np", str(case.np), "--models", f"emulate:mnist@{MODEL_S:g}"),
        *("--num-steps", str(NUM_STEPS), "--num-warmup-batches", "6", "--repeats", "1"),
        *("--output", str(run), "--quiet"),
    ]
    if case.phase:
        command = [*hvdprof, "inject", "--fault", case.fault, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CaseFailedError(done.stderr)
    result = asdict(case) | {"name": case.name, "load": os.getloadavg()[0]}
    result["fault_ns"] = case.share * MODEL_S * 1e9 / case.every
    return result | _clocks(run, case)


def found_in(folder: Path, rank: int) -> Result:
    """The ranks that the analysis of a launch names, the costliest one, and the step; times in ns.

    Args:
        folder: The run directory.
        rank: The rank that is slow in truth, whose cost is given in any case.

    Raises:
        CaseFailedError: It could not be analysed.
    """
    try:
        run = api.load_run(folder)
        derived = api.analyze_run(run).derived
    except HvdprofError as error:
        raise CaseFailedError(error.message) from error
    measured = set(run.segments.loc[run.segments["mode"] == "throughput", "pass_id"].astype(str))
    late = derived["stragglers"]
    late = late[late["pass_id"].astype(str).isin(measured)].copy()
    # Of a named straggler the cost is that of the first lines.
    for row in derived["waterfall"].to_dict("records"):
        if row["term"] == STRAGGLER and (ranks := ranks_of(row)):
            late.loc[late["rank"].isin(ranks), "cost_ns"] = float(row["time_ns"])
    is_named = late["pattern"].isin(STRAGGLER_PATTERNS)
    named = late[is_named].sort_values("cost_ns", ascending=False)
    own = late[late["rank"] == rank]
    first = late.sort_values("cost_ns", ascending=False, kind="stable")["rank"].head(1).tolist()
    return {
        "first": int(first[0]) if first else -1,
        "cost_ns": float(own["cost_ns"].iloc[0]) if len(own) else 0.0,
        "named": [
            {"rank": int(row["rank"]), "phase": str(row["phase"]), "cost_ns": float(row["cost_ns"])}
            for row in named.to_dict("records")
        ],
        "step_ns": float(run.steps.loc[run.steps["pass_id"].isin(measured), "dur_ns"].median()),
    }


def _clocks(folder: Path, case: Case) -> dict[str, int]:
    """The number of exchanges, and of those whose error bound held against the injected skew."""
    errors = []
    for path in folder.glob("passes/*/recorder/rank-*.jsonl"):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        header = next(line for line in lines if line["kind"] == "header")
        if header["rank"] == 0:
            continue
        wrong = case.phase == CLOCK and header["rank"] == case.rank
        sign = (-1 if case.repeat % 2 else 1) if wrong else 0
        offset_ns, drift = sign * OFFSET_MS * 1e6, sign * DRIFT_PPM * 1e-6
        for line in lines:
            if line["kind"] == "clock":
                ahead_ns = offset_ns + drift * (line["monotonic_ns"] - header["monotonic_ns"])
                errors.append((abs(line["offset_ns"] + ahead_ns), line["error_ns"]))
    return {
        "num_clocks": len(errors),
        "num_clocks_right": sum(error <= bound for error, bound in errors),
    }


def read_results(log: Path) -> list[Result]:
    """The results so far; a truncated last line is removed, so that its case runs again."""
    if not log.exists():
        return []
    whole, _, torn = log.read_text(encoding="utf-8").rpartition("\n")
    if torn:
        write_whole(log, whole + "\n" if whole else "")
    return [json.loads(line) for line in whole.splitlines()]


def run_missing(
    cases: Sequence[Case],
    folder: Path,
    budget_s: float,
    run: Callable[[Case, Path], Result],
) -> list[Result]:
    """Run the cases that ``cases.jsonl`` of the folder does not hold; what all runs there say.

    Args:
        cases: The grid.
        folder: Made where it is missing.
        budget_s: After that time no new case starts.
        run: Runs a case into a folder of its name, or raises ``CaseFailedError``.

    Raises:
        CaseFailedError: A run that the folder holds could not be analysed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "cases.jsonl"
    results = read_results(log)
    known = {result["name"] for result in results}
    begin_s = time.monotonic()
    num_failed = 0
    for case in cases:
        if case.name in known:
            continue
        if time.monotonic() - begin_s > budget_s or num_failed >= MOST_FAILURES:
            break
        try:
            result = run(case, folder)
        except CaseFailedError as error:
            num_failed += 1
            print(f"{case.name} failed:\n{error}", file=sys.stderr, flush=True)
            continue
        results.append(result)
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result) + "\n")
        print(f"{case.name} is recorded.", file=sys.stderr, flush=True)
    left = len(cases) - len(results)
    if left:
        print(f"{left} cases have no result yet, {num_failed} failed.", file=sys.stderr)
    return [result | found_in(folder / result["name"], result["rank"]) for result in results]


def publish(
    parser: argparse.ArgumentParser,
    cases: Callable[[argparse.Namespace], Sequence[Case]],
    run: Callable[[Case, Path], Result],
    text: Callable[[list[Result]], str],
    section: str,
) -> None:
    """Run what a command asks for and is missing, print the tables, and write them into a page.

    Args:
        parser: With the options of the grid alone; those of all grids are added.
        cases: The grid that the options mean.
        run: As for ``run_missing``.
        text: The tables over all results.
        section: The section of the page.
    """
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--budget", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    options = parser.parse_args()
    results = run_missing(cases(options), options.folder, options.budget, run)
    if results:
        printed = text(results)
        print(printed)
        if options.write is not None:
            write_section(options.write, section, printed)


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    publish(parser, lambda options: grid(options.quick), run_case, table, "real")


if __name__ == "__main__":
    main()
