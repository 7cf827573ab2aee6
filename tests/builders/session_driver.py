"""What a user runs in an open session: functions, one after the other; results as JSON on stdout.

``python -m tests.builders.session_driver spark|ray FOLDER`` with the repository in PYTHONPATH.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hvdprof.api import FunctionRunner, HorovodRunner
from hvdprof.errors import HvdprofError
from hvdprof.launch.functions import function_job
from tests.builders.user_function import train

LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@contextmanager
def spark() -> Iterator[None]:
    """A Spark session of two tasks at a time that only this host can reach."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # A session of half a minute: what the second compiler makes fast is never run often enough.
    builder = builder.config("spark.driver.extraJavaOptions", LIGHT_JAVA)
    for name in ("spark.driver.bindAddress", "spark.driver.host"):
        builder = builder.config(name, "127.0.0.1")
    session = builder.getOrCreate()
    yield
    session.stop()


@contextmanager
def ray() -> Iterator[None]:
    """A Ray session of two processors that only this host can reach."""
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray

    ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


def outcome_of(act: Callable[[], Any]) -> Any:
    """What a call gives, or the message and hint of what it raises."""
    try:
        return act()
    except HvdprofError as error:
        return [type(error).__name__, error.message, error.hint]


def main() -> None:
    kind, root = sys.argv[1], Path(sys.argv[2])
    results: dict[str, Any] = {}

    def runner(name: str, **choices: Any) -> FunctionRunner:
        return FunctionRunner(launcher=kind, output=root / name, **choices)

    results["no session"] = outcome_of(lambda: runner("none", np=2).run(train, 1))
    with {"spark": spark, "ray": ray}[kind]():
        results["too large"] = outcome_of(lambda: runner("four", np=4).run(train, 1))
        results["returned"] = outcome_of(lambda: runner("well", np=2).run(train, 2).returned)
        killed = runner("killed", np=2, trace=False)
        results["killed"] = outcome_of(lambda: killed.run(train, 2, die_at=5))
        # As on hosts that share no file system with this one.
        function_job._write_mark = lambda path, mark: None
        carried = runner("carried", np=2, trace=False)
        results["carried"] = outcome_of(lambda: carried.run(train, 9, fail_at=60))
        if kind == "spark":
            os.chdir(root)
            results["runner"] = HorovodRunner(np=2).run(train, epochs=1)
    sys.stdout.write(f"\n{json.dumps(results)}\n")


if __name__ == "__main__":
    main()
