"""A function measured on the Ray cluster that runs here: ``python -m ... FOLDER``, JSON on stdout.

On each rank the function says where it runs, beside what it trained.
"""

import json
import sys
from pathlib import Path
from typing import Any

from hvdprof.api import FunctionRunner
from tests.builders.user_function import train


def placed_train(epochs: int) -> dict[str, Any]:
    """What ``train`` returns, the name of the host, and the rank among those of its host."""
    import socket

    import horovod.torch as hvd

    trained = train(epochs)
    return trained | {"host": socket.gethostname(), "local_rank": hvd.local_rank()}


def main() -> None:
    import ray

    ray.init(address="auto", log_to_driver=False)
    runner = FunctionRunner(launcher="ray", output=Path(sys.argv[1]), np=2, trace=False)
    sys.stdout.write(f"\n{json.dumps(runner.run(placed_train, 2).returned)}\n")
    ray.shutdown()


if __name__ == "__main__":
    main()
