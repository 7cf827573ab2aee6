"""How often the right rank and phase are named in unmodified DDP and FSDP2 scripts with bugs.

``python -m benchmarks.torch_faults --folder DIR --write docs/explain/accuracy.md`` launches
``benchmarks/scripts/unmodified_training.py`` under ``hvdprof run --launcher torchrun`` for every
case that DIR does not hold yet. The bug is in the script. Its size is a share of the step that the
clean launch before has: what communication takes differs between engines and numbers of ranks.
Cases are judged, kept and counted as in ``benchmarks/attribution.py``.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.attribution import (
    Case,
    CaseFailedError,
    found_in,
    publish,
    read_results,
)
from benchmarks.case_table import Result, table
from benchmarks.scripts.profiled_training import PARTS

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "scripts" / "unmodified_training.py"
ENGINES = {"ddp": "DDP", "fsdp": "FSDP2"}
SHARES = (0.07, 0.2, 0.1, 0.05, 0.02)
"""Of the step. A rank that is late by 5 % costs less than that, and is not named on purpose."""

SIZES = (2, 4, 8)
NUM_STEPS = 50
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchCase(Case):
    """A launch of the script under one engine."""

    engine: str

    @property
    def name(self) -> str:
        """A name that no other case of the grid has."""
        # `super()` does not know the class that `slots` makes.
        return f"{self.engine}-{Case.name.__get__(self)}"


def grid(engines: tuple[str, ...] = tuple(ENGINES)) -> list[TorchCase]:
    """The cases, those that matter most first: one rank slow by a share, and clean launches."""
    return [
        TorchCase(
            engine=engine,
            np=size,
            phase=phase,
            rank=size - 1 if phase else -1,
            share=share if phase else 0.0,
            every=1,
            repeat=number,
        )
        for number, share in enumerate(SHARES)
        for size in SIZES
        for engine in engines
        for phase in ("", *PARTS)
    ]


def run_case(case: Case, folder: Path) -> Result:
    """Launch the script into a folder of the case's name; its truth.

    Raises:
        CaseFailedError: The launch failed, or the clean one before it could not be analysed.
    """
    assert isinstance(case, TorchCase)
    run = folder / case.name
    if run.exists():
        shutil.rmtree(run)
    fault_ms = case.share * _clean_step_ns(case, folder) / 1e6 if case.phase else 0.0
    fault = f"{case.phase}:rank={case.rank}:ms={fault_ms:g}" if case.phase else ""
    command = [
        *(sys.executable, "-m", "hvdprof", "run", "--launcher", "torchrun"),
        *("--np", str(case.np), "--no-trace", "--repeats", "1", "--output", str(run), "--quiet"),
        *("--num-steps", str(NUM_STEPS - 10), "--", sys.executable, str(SCRIPT)),
        *("--engine", case.engine, "--fault", fault, "--steps", str(NUM_STEPS)),
    ]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    if done.returncode:
        raise CaseFailedError(done.stdout + done.stderr)
    result = asdict(case) | {"name": case.name, "load": os.getloadavg()[0]}
    result["fault_ns"] = fault_ms * 1e6
    return result


def _clean_step_ns(case: TorchCase, folder: Path) -> float:
    """The median step of the latest clean launch of an engine and number of ranks."""
    clean = [
        folder / one["name"]
        for one in read_results(folder / "cases.jsonl")
        if not one["phase"] and (one["engine"], one["np"]) == (case.engine, case.np)
    ]
    if not clean:
        raise CaseFailedError("no clean launch")
    return float(found_in(clean[-1], case.rank)["step_ns"])


def page_text(results: list[Result]) -> str:
    """A table per engine."""
    parts = []
    for engine, title in ENGINES.items():
        own = [one for one in results if one["engine"] == engine]
        if own:
            parts += [f"**{title}**:", table(own, "the clean step")]
    return "\n\n".join(parts)


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    publish(parser, lambda _options: grid(), run_case, page_text, "torch")


if __name__ == "__main__":
    main()
