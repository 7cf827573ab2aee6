"""Ways to read a Horovod timeline, side by side: time, CPU time and peak memory.

    .venv/bin/python benchmarks/ingest.py timeline.json --repeats 3

One fresh process for each measurement, all ways in turn and that several times over, so that a
disturbance meets all of them; medians are printed. Rates are MB of the file by second. What is
compiled is warm: each process first reads a small file (of hvdprof's ways the head of the file),
which is not timed. A way whose package is missing, or that a file is too large for, is left out.
With ``--against`` a checkout of an earlier version is measured side by side.
"""

import argparse
import importlib.util
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

SMALL = '[{"ph": "B", "name": "A", "ts": 1, "pid": 1},{"ph": "E", "ts": 2, "pid": 1}]'
NONE = ({"cpu_s": float("nan")},)
HEAD_BYTES = 40_000_000
MOST_BYTES_FOR_OBJECTS = 600_000_000


def ours(path: Path) -> int:
    """To the finished slice table in memory."""
    # ``read`` is the name in earlier versions.
    folder = "hvdprof.ingest.timeline"
    name = "parse" if importlib.util.find_spec(f"{folder}.parse") else "read"
    read = importlib.import_module(f"{folder}.{name}")
    setattr(read, "SMALL_BYTES", 0)  # noqa: B010 - the module is found by its name
    return len(read.read_raw(path).slices)


def analyze(path: Path) -> int:
    """The analysis behind `hvdprof analyze` of a file without a cache, from Python."""
    from hvdprof import api

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        linked = Path(folder) / "timeline.json"
        os.link(path, linked)
        return len(api.analyze_files(api.load_run(linked)).files)


def analyze_command(path: Path) -> int:
    """The command `hvdprof analyze` on a file without a cache, with its start and its imports."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        linked = Path(folder) / "timeline.json"
        os.link(path, linked)
        command = [sys.executable, "-m", "hvdprof", "analyze", str(linked)]
        return len(subprocess.run(command, capture_output=True, check=True).stdout)


def events(path: Path) -> int:
    """The rows of EVENTS of a file without a cache, all of them piece by piece."""
    from hvdprof import api

    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        linked = Path(folder) / "timeline.json"
        os.link(path, linked)
        run = api.load_run(linked)
        # ``kept`` is the name in earlier versions.
        cached = getattr(run, "cached", None) or vars(run)["kept"]
        ((_, tables),) = cached.items()
        return sum(map(len, tables["events"].pieces()))


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


def orjson_loads(path: Path) -> int:
    """The orjson library, to dicts: no pairs, no columns."""
    orjson = importlib.import_module("orjson")
    return len(orjson.loads(path.read_bytes()))


def simdjson_dom(path: Path) -> int:
    """The simdjson library through pysimdjson, parsed only: no dicts, no columns, no pairs."""
    simdjson = importlib.import_module("simdjson")
    return len(simdjson.Parser().parse(path.read_bytes()))


WAYS: dict[str, Callable[[Path], int]] = {
    way.__name__: way
    for way in (
        ours,
        analyze,
        analyze_command,
        events,
        json_load,
        json_columns,
        orjson_loads,
        duckdb_array,
        simdjson_dom,
    )
}
_OBJECTS = {"json_load", "json_columns", "orjson_loads", "simdjson_dom"}
_OF_HVDPROF = {"ours", "analyze", "analyze_command", "events"}
_SELF_AND_CHILDREN = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def measure_one(name: str, path: Path) -> None:
    """Measure one way in this process and its children, and print it as JSON."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        head = Path(folder) / "head.json"
        head.write_bytes(_head_of(path) if name in _OF_HVDPROF else SMALL.encode())
        WAYS[name](head)
    before, wall = _cpu_s(), time.perf_counter()
    number = WAYS[name](path)
    wall, cpu = time.perf_counter() - wall, _cpu_s() - before
    peak = max(resource.getrusage(who).ru_maxrss for who in _SELF_AND_CHILDREN) / 1024
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_mib": peak, "rows": number}))


def _head_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _cpu_s() -> float:
    usage = [resource.getrusage(who) for who in _SELF_AND_CHILDREN]
    return sum(one.ru_utime + one.ru_stime for one in usage)


def measured(name: str, path: Path, checkout: Path) -> dict[str, float] | None:
    """One measurement in a fresh process; ``None`` where the way does not work here."""
    command = [sys.executable, str(Path(__file__).resolve()), str(path.resolve()), "--only", name]
    # ``-m hvdprof`` of the child prefers the current folder, which may be another checkout.
    given = os.environ.get("PYTHONPATH", "")
    paths = os.pathsep.join(filter(None, (str(checkout.resolve()), given)))
    environment = os.environ | {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1"}
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
    parser.add_argument("--against", type=Path, help="a checkout of an earlier version")
    options = parser.parse_args()
    if options.only:
        measure_one(options.only, options.file)
        return
    megabytes = options.file.stat().st_size / 1e6
    too_large = _OBJECTS if 1e6 * megabytes > MOST_BYTES_FOR_OBJECTS else set()
    checkouts = {"": Path(__file__).parents[1]}
    if options.against is not None:
        checkouts[" before"] = options.against
    ways = {
        (way, version): checkout
        for way in options.ways
        for version, checkout in checkouts.items()
        if way not in too_large and (not version or way in _OF_HVDPROF)
    }
    found: dict[tuple[str, str], list[dict[str, float]]] = {way: [] for way in ways}
    for _ in range(options.repeats):
        for way, checkout in list(ways.items()):
            result = measured(way[0], options.file, checkout)
            if result is None:
                del ways[way]
            else:
                found[way].append(result)
    print(f"{megabytes:.0f} MB, load {os.getloadavg()[0]:.1f}, medians of {options.repeats}")
    print("| way | MB/s | MB/cpu-s | cores | peak MiB | CPU to ours |\n|---|---|---|---|---|---|")
    ours_cpu = statistics.median(result["cpu_s"] for result in found.get(("ours", ""), ()) or NONE)
    for way in ways:
        wall, cpu, peak = (
            statistics.median(result[key] for result in found[way])
            for key in ("wall_s", "cpu_s", "peak_mib")
        )
        rates = f"{megabytes / wall:.0f} | {megabytes / cpu:.0f} | {cpu / wall:.2f}"
        print(f"| {''.join(way)} | {rates} | {peak:.0f} | {cpu / ours_cpu:.1f}x |")


if __name__ == "__main__":
    main()
