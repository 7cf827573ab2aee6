"""Mutated timeline files on the fast and the slow path: neither may raise or hang, both must agree.

    .venv/bin/python benchmarks/fuzz.py --mutants 100000 --seed 1 FOLDER...

The compiled path parses ahead in a second thread.

Every mutant is a recording with a few bytes cut, repeated, overwritten, inserted or moved. A mutant
on which the paths differ is written to the current folder, and the exit code is 1.
"""

import argparse
import io
import random
import sys
import time
from pathlib import Path

from hvdprof.ingest.text.text_chunks import Chunks
from hvdprof.ingest.timeline.compiled.fast_path import FastPairing
from hvdprof.ingest.timeline.syntax.pairing import Pairing, PlainPairing
from hvdprof.ingest.timeline.syntax.parsed_timeline import RawTimeline
from hvdprof.ingest.timeline.syntax.record_reader import Reader
from tests.builders.timeline_mutants import mutant
from tests.builders.timeline_reference import assert_same

LONGEST_SEED = 6000
SLOW_S = 5.0


def main() -> int:
    """Run the mutants and print what failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="folders of *.json recordings")
    parser.add_argument("--mutants", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    seeds = _seeds(options.folders)
    random_numbers = random.Random(options.seed)
    started, num_damaged, num_failed, slowest = time.monotonic(), 0, 0, 0.0
    for number in range(options.mutants):
        content = mutant(random_numbers, random_numbers.choice(seeds))
        chunk_bytes = random_numbers.choice((1 << 20, 64, 257, 1000))
        before = time.monotonic()
        try:
            fast = read(content, FastPairing(), chunk_bytes)
            assert_same(fast, read(content, PlainPairing(), 1 << 20))
            num_damaged += fast.damage.num_places > 0
        except Exception as error:  # any exception is a failure of the mutant, and is printed
            num_failed += 1
            path = Path(f"mutant-{options.seed}-{number}.json")
            path.write_bytes(content)
            print(f"{path} (chunks of {chunk_bytes} bytes): {error!r}")
        slowest = max(slowest, time.monotonic() - before)
    took = time.monotonic() - started
    print(
        f"{options.mutants} mutants of {len(seeds)} seeds in {took:.0f} s: {num_failed} failed, "
        f"{num_damaged} were read as damaged, the slowest took {slowest:.2f} s"
    )
    return int(num_failed > 0 or slowest > SLOW_S)


def read(content: bytes, pairing: Pairing, chunk_bytes: int) -> RawTimeline:
    """The timeline in the content, read by one of the paths."""
    return Reader(
        Chunks(io.BytesIO(content), len(content), chunk_bytes=chunk_bytes), pairing
    ).read()


def _seeds(folders: list[Path]) -> list[bytes]:
    files = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    seeds = []
    for path in files:
        if ".truth." not in path.name:
            content = path.read_bytes()
            seeds += [content[:LONGEST_SEED], content[-LONGEST_SEED // 3 :]]
    if not seeds:
        sys.exit("these folders hold no *.json file")
    return seeds


if __name__ == "__main__":
    sys.exit(main())
