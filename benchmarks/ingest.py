"""Ways to read a Horovod timeline, side by side: time, CPU time and peak memory.

    .venv/bin/python benchmarks/ingest.py timeline.json --repeats 3

One fresh process for each measurement, all ways in turn and that several times over, so that a
disturbance meets all of them; medians are printed. Rates are MB of the file by second. What is
compiled is warm: each process first reads a small file, which is not timed. A way whose package is
missing, or that a file is too large for, is left out.
"""

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hvdprof.ingest.timeline.parse import read_raw

SMALL = '[{"ph": "B", "name": "A", "ts": 1, "pid": 1},{"ph": "E", "ts": 2, "pid": 1}]'
MOST_BYTES_FOR_OBJECTS = 600_000_000


def ours(path: Path) -> int:
    """To the finished slice table in memory."""
    from hvdprof.ingest.timeline import parse as read

    read.SMALL_BYTES = 0
    return len(read_raw(path).slices)


def ours_to_parquet(path: Path) -> int:
    """To all tables in Parquet files, in parts."""
    from hvdprof.ingest.storage import parquet_cache
    from hvdprof.ingest.tables.standalone_timeline import cached_timeline

    parquet_cache.CACHE_FROM_BYTES = 0
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        linked = Path(folder) / "timeline.json"
        os.link(path, linked)
        files = cached_timeline(linked, lambda done, size: None)
        return 0 if files is None else len(files)


def json_load(path: Path) -> int:
    """The standard library, to dicts: no pairs, no columns."""
    with path.open() as file:
        return len(json.load(file))


def json_columns(path: Path) -> int:
    """The standard library, to columns of events: no pairs."""
    import pandas as pd

    with path.open() as file:
        return len(pd.DataFrame(json.load(file)))


def duckdb_array(path: Path) -> int:
    """DuckDB's reader of JSON arrays, to a table of events: no pairs."""
    import duckdb

    columns = "{ph: 'VARCHAR', name: 'VARCHAR', ts: 'BIGINT', pid: 'INTEGER', args: 'JSON'}"
    connection = duckdb.connect()
    connection.execute(
        f"CREATE TABLE t AS SELECT * FROM read_json('{path}', format='array', columns={columns})"
    )
    return int(connection.execute("SELECT count(*) FROM t").fetchall()[0][0])


def simdjson_dom(path: Path) -> int:
    """The simdjson library through pysimdjson, parsed only: no dicts, no columns, no pairs."""
    simdjson = importlib.import_module("simdjson")
    return len(simdjson.Parser().parse(path.read_bytes()))


WAYS: dict[str, Callable[[Path], int]] = {
    way.__name__: way
    for way in (ours, ours_to_parquet, json_load, json_columns, duckdb_array, simdjson_dom)
}
_OBJECTS = {"json_load", "json_columns", "simdjson_dom"}


def measure_one(name: str, path: Path) -> None:
    """Measure one way in this process and print it as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "small.json"
        small.write_text(SMALL)
        WAYS[name](small)
    before, wall = time.process_time(), time.perf_counter()
    number = WAYS[name](path)
    wall, cpu = time.perf_counter() - wall, time.process_time() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_mib": peak, "rows": number}))


def measured(name: str, path: Path) -> dict[str, float] | None:
    """One measurement in a fresh process; ``None`` where the way does not work here."""
    command = [sys.executable, __file__, str(path), "--only", name]
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        print(f"{name}: {(done.stderr.strip() or '?').splitlines()[-1]}", file=sys.stderr)
        return None
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    """Measure all ways and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=WAYS, help="one way, in this process")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    if options.only:
        measure_one(options.only, options.file)
        return
    megabytes = options.file.stat().st_size / 1e6
    too_large = _OBJECTS if 1e6 * megabytes > MOST_BYTES_FOR_OBJECTS else set()
    ways = [way for way in options.ways if way not in too_large]
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way in list(ways):
            result = measured(way, options.file)
            if result is None:
                ways.remove(way)
            else:
                found[way].append(result)
    print(f"{megabytes:.0f} MB, load {os.getloadavg()[0]:.1f}, medians of {options.repeats}")
    print("| way | MB/s | MB/cpu-s | cores | peak MiB |\n|---|---|---|---|---|")
    for way in ways:
        wall, cpu, peak = (
            statistics.median(result[key] for result in found[way])
            for key in ("wall_s", "cpu_s", "peak_mib")
        )
        rates = f"{megabytes / wall:.0f} | {megabytes / cpu:.0f} | {cpu / wall:.2f}"
        print(f"| {way} | {rates} | {peak:.0f} |")


if __name__ == "__main__":
    main()
