"""Damaged inputs: each ends in a result or in one message, soon, and in little memory.

    PYTHONPATH=. .venv/bin/python benchmarks/fuzz_inputs.py --mutants 1000
    PYTHONPATH=. .venv/bin/python benchmarks/fuzz_inputs.py --mutants 100000 --kind 'both paths'

An input of each kind is copied and changed in a few places, and a command of hvdprof reads it in a
process of its own. `both paths` compares the compiled reading of a timeline with the plain one.
What failed is copied into --failures; the exit code is 1 then.
"""

import argparse
import contextlib
import importlib
import io
import math
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.builders.fuzz_seeds import KINDS, Seeds, timelines
from tests.builders.mutants import damage
from tests.builders.timeline_reference import assert_same

MOST_CPU_S = 5.0
MOST_BYTES = 500_000_000
BOTH_PATHS = "both paths"
_MOST_TRIED_CPU_S = 60
_TIMEOUT_S = 900
_MOST_DATA_BYTES = 6_000_000_000
_PYTHON_SPEAKS = re.compile(r"^Traceback |^\S+\.py:\d+: \w+Warning: ", re.MULTILINE)

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("analyze", "{path}"),
    ("analyze", "{path}", "--format", "json"),
    ("convert", "{path}", "--format", "csv", "-o", "{out}/tables"),
    ("report", "{path}", "-o", "{out}/report.md"),
    ("report", "{path}", "-o", "{out}/report.html"),
    ("export", "{path}", "-o", "{out}/trace.json"),
)
"""Each mutant is read by the next of them; every second one by the first."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process of a mutant ended: its messages, its processor time, and its memory."""

    status: int
    stderr: str
    cpu_s: float
    most_bytes: int

    @property
    def problem(self) -> str:
        """What is wrong with that; empty where nothing is."""
        if os.WIFSIGNALED(self.status):
            return f"ended by {signal.Signals(os.WTERMSIG(self.status)).name}"
        if _PYTHON_SPEAKS.search(self.stderr):
            return "traceback"
        if self.is_refused and not self.stderr.startswith("hvdprof: "):
            return "no message"
        return "slow" * (self.cpu_s > MOST_CPU_S) or "large" * (self.most_bytes > MOST_BYTES)

    @property
    def is_refused(self) -> bool:
        """Whether the command ended in a message instead of a result."""
        return os.waitstatus_to_exitcode(self.status) != 0


@dataclass(slots=True)
class Tally:
    """What came of the mutants of a kind."""

    num_mutants: int = 0
    num_refused: int = 0
    problems: list[tuple[int, Ended]] = field(default_factory=list)
    slowest_s: float = 0.0
    most_bytes: int = 0

    def add(self, number: int, ended: Ended) -> None:
        """Count one mutant."""
        self.num_mutants += 1
        self.num_refused += ended.is_refused
        self.slowest_s = max(self.slowest_s, ended.cpu_s)
        self.most_bytes = max(self.most_bytes, ended.most_bytes)
        if ended.problem:
            self.problems.append((number, ended))

    def row(self, kind: str) -> str:
        """The row of the table."""
        kinds = [one.problem for _, one in self.problems]
        slow, large = kinds.count("slow"), kinds.count("large")
        return (
            f"| {kind} | {self.num_mutants} | {self.num_refused} | {len(kinds) - slow - large} | "
            f"{slow} | {large} | {self.slowest_s:.1f} | {self.most_bytes / 1e6:.0f} |"
        )


HEAD = (
    "| input | mutants | refused | traceback | over 5 s | over 500 MB | slowest, s | most, MB |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    """Run the mutants, print a row for each kind, and what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0, help="of each kind, at most")
    parser.add_argument("--kind", action="append", choices=[*KINDS, BOTH_PATHS])
    parser.add_argument("--only", type=int, help="run the mutant of this number alone")
    parser.add_argument("--failures", type=Path, default=Path("failed-mutants"))
    options = parser.parse_args()
    numbers = range(options.mutants) if options.only is None else [options.only]
    print(HEAD, flush=True)
    failed = False
    for kind in options.kind or [*KINDS, BOTH_PATHS]:
        tally = fuzzed(
            kind, options.seed, numbers, failures=options.failures, seconds=options.seconds
        )
        print(tally.row(kind), flush=True)
        for number, ended in tally.problems:
            last = ended.stderr.strip().rpartition("\n")[2][:300]
            print(f"{kind} {number}: {ended.problem}: {last}", file=sys.stderr, flush=True)
        failed |= bool(tally.problems)
    return int(failed)


def fuzzed(
    kind: str,
    seed: int,
    numbers: Sequence[int],
    *,
    failures: Path | None = None,
    seconds: float = math.inf,
) -> Tally:
    """What came of some mutants of a kind; each depends on its number and the seed alone.

    Args:
        kind: One of ``KINDS``, or ``both paths``.
        seed: Of all mutants.
        numbers: Those of the mutants.
        failures: Receives a copy of each mutant that failed.
        seconds: After these the rest is left out.
    """
    write: Seeds = KINDS.get(kind, timelines)
    tally = Tally()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "seeds").mkdir()
        seeds = write(home / "seeds")
        _import_what_is_needed(kind, seeds, home)
        deadline = time.monotonic() + seconds
        for number in numbers:
            if time.monotonic() > deadline:
                break
            source = random.Random(f"{kind} {seed} {number}")
            given = _mutant(source, source.choice(seeds), home)
            ended = _ended(_work(kind, number, given, home), home)
            tally.add(number, ended)
            if ended.problem and failures is not None:
                target = failures / f"{kind.replace(' ', '-')}-{seed}-{number}"
                shutil.rmtree(target, ignore_errors=True)
                (shutil.copytree if given.is_dir() else _copied)(given, target / "given")
                (target / "stderr").write_text(ended.stderr)
    return tally


def _copied(given: Path, target: Path) -> None:
    target.parent.mkdir(parents=True)
    shutil.copy(given, target)


def _mutant(source: random.Random, seed: Path, home: Path) -> Path:
    """A copy of an input, in which one or two files are damaged."""
    for name in ("given", "out"):
        shutil.rmtree(home / name, ignore_errors=True)
        (home / name).mkdir()
    given = home / "given" / seed.name
    (shutil.copytree if seed.is_dir() else shutil.copy)(seed, given)
    files = sorted(path for path in given.rglob("*") if path.is_file()) or [given]
    for path in source.sample(files, min(len(files), source.choice((1, 1, 2)))):
        damage(source, path)
    return given


def _work(kind: str, number: int, given: Path, home: Path) -> Callable[[], None]:
    if kind == BOTH_PATHS:
        return lambda: compare_paths(given.read_bytes(), (1 << 20, 64, 257, 1000)[number % 4])
    command = COMMANDS[number // 2 % len(COMMANDS) if number % 2 else 0]
    words = [word.format(path=given, out=home / "out") for word in command]
    return lambda: _hvdprof(words)


def _hvdprof(words: list[str]) -> None:
    sys.argv = ["hvdprof", *words]
    from hvdprof.cli.main import main as hvdprof_main

    hvdprof_main()


def compare_paths(content: bytes, chunk_bytes: int) -> None:
    """Read a timeline by the compiled path, which parses ahead in a second thread, and plainly.

    Raises:
        AssertionError: They differ.
    """
    from hvdprof.ingest.text.text_chunks import Chunks
    from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
    from hvdprof.ingest.timeline.syntax.pairing import PlainPairing
    from hvdprof.ingest.timeline.syntax.record_reader import Reader

    def chunks(most: int) -> Chunks:
        return Chunks(io.BytesIO(content), len(content), chunk_bytes=most)

    fast = Reader(chunks(chunk_bytes), FastPairing()).read()
    assert_same(fast, Reader(chunks(1 << 20), PlainPairing()).read())


def _import_what_is_needed(kind: str, seeds: Sequence[Path], home: Path) -> None:
    """Import what the commands import, so that the processes of mutants start with it."""
    (home / "out").mkdir(exist_ok=True)
    names = home / "modules"
    for number in range(1, 2 * len(COMMANDS), 2):
        work = _work(kind, number, seeds[number // 2 % len(seeds)], home)

        def listed(work: Callable[[], None] = work) -> None:
            try:
                work()
            finally:
                with names.open("a") as file:
                    file.write("\n".join([*sys.modules, ""]))

        # Before the next one, so that it does not import the same.
        _ended(listed, home)
        for name in dict.fromkeys(names.read_text().splitlines()):
            if name not in sys.modules:
                with contextlib.suppress(ImportError, AttributeError):
                    importlib.import_module(name)


def _ended(work: Callable[[], None], home: Path) -> Ended:
    """How a process ends that does some work."""
    printed = [home / "stdout", home / "stderr"]
    sys.stdout.flush()
    with warnings.catch_warnings():
        # Arrow's threads, of which Python 3.12 warns, stand the fork.
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process == 0:
        _become(work, printed)
    _, status, used = os.wait4(process, 0)
    stderr = printed[1].read_text(encoding="utf-8", errors="replace")
    return Ended(status, stderr, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def _become(work: Callable[[], None], printed: Sequence[Path]) -> None:
    """Do some work in place of the rest of the process."""
    code = 70
    try:
        # Beside other work the processor is shared: the clock says little.
        signal.setitimer(signal.ITIMER_PROF, _MOST_TRIED_CPU_S)
        signal.alarm(_TIMEOUT_S)
        resource.setrlimit(resource.RLIMIT_DATA, (_MOST_DATA_BYTES, _MOST_DATA_BYTES))
        os.environ["XDG_CACHE_HOME"] = str(printed[0].parent / "cache")
        for number, (name, path) in enumerate(zip(("stdout", "stderr"), printed, strict=True), 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            # A test that captures output has put its own streams in place.
            stream = os.fdopen(number, "w", encoding="utf-8")
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        try:
            work()
            code = 0
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
