"""Jobs to be tuned, built from declared tables: a test states what matters."""

from collections.abc import Sequence
from typing import Any

from hvdprof.analyze.tune.tuned_job import Means, TunedJob, tuned_job
from hvdprof.model.causes import INPUT_BOUND
from hvdprof.model.table_catalogue import TABLES
from hvdprof.model.tables.finding_tables import FINDINGS
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import (
    analysis,
    cell,
    finding,
    manifest,
    pass_record,
    run,
    segment,
)

NAMES = {"pass_id": "p", "segment": "s"}
CELL = {
    "model": "resnet18",
    "np": 2,
    "engine": "horovod",
    "compression": "none",
    "reduction": "average",
}
MB = 2**20
BOTH = ("gloo", "mpi")


def table(name, *rows):
    return declared_rows(next(one for one in TABLES if one.name == name), *rows)


def executions(*sizes, dur_ns=1_000_000):
    """Collectives of three steps, each with these payloads."""
    return [
        {**NAMES, "step": step, "size_bytes": size, "dur_ns": dur_ns}
        for step in range(3)
        for size in sizes
    ]


def job(
    *,
    environment: dict[str, str] | None = None,
    sizes=(40 * MB,),
    findings=(),
    hosts=("node1", "node1"),
    cores=4,
    machine_cores=None,
    affinity_cores=None,
    input_bound=None,
    threads=1,
    cuda=False,
    controller="mpi",
    num_tensors=62,
    command: tuple[str, ...] = ("python", "train.py"),
    sets_threads=False,
    options: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    text="",
    controllers=BOTH,
    exposed=0.3,
    engine="horovod",
    bench=False,
    ddp: DdpFacts | None = None,
    ready: Sequence[Sequence[str]] = (),
    **values: Any,
) -> TunedJob:
    """resnet18 on 2 ranks that are blocked for 11 % of a step of 31 ms.

    ``ready`` are the gradients that each rank has in each of three steps.
    """
    own = {"engine": engine}
    record = pass_record(
        "p",
        [segment("s", **own)],
        mode="throughput",
        controller=controller,
        environment=environment or {},
    )
    recorded = manifest(
        passes=[record],
        environment={},
        options=(options or {}) | ({"num_threads": threads} if sets_threads else {}),
        settings=(settings or {}) | ({} if bench else {"script": {"command": list(command)}}),
        hosts=[
            {
                "hostname": "node1",
                "num_cores": cores,
                "num_machine_cores": machine_cores or cores,
                "gpus": [],
            }
        ],
    )
    ranks = [
        {
            "pass_id": "p",
            "rank": rank,
            "hostname": host,
            "device": "cuda:0" if cuda else "cpu",
            "num_threads": threads,
            "num_affinity_cores": affinity_cores or cores,
        }
        for rank, host in enumerate(hosts)
    ]
    of_run = {
        "segments": table(
            "segments",
            NAMES
            | own
            | {
                "mode": "throughput",
                "model": "resnet18",
                "size": len(hosts),
                "compression": "none",
                "reduction": "average",
                "num_tensors": num_tensors,
            },
        ),
        "ranks": table("ranks", *ranks),
        "arrivals": table(
            "arrivals",
            *(
                NAMES | {"rank": rank, "step": step, "tensor": tensor, "ready_ns": 1_000 * step}
                for step in range(3)
                for rank, tensors in enumerate(ready)
                for tensor in tensors
            ),
        ),
    }
    here = CELL | own | {"np": len(hosts)}
    term = here | {"term": "exposed-transfer", "share": exposed, "share_high": exposed}
    terms = [term]
    if input_bound is not None:
        terms.append(here | {"term": INPUT_BOUND, "time_ns": input_bound})
    found = analysis(
        [cell(**(own | {"np": len(hosts)} | values))],
        run=run(manifest=recorded, ddp=ddp, **of_run),
        derived={
            "collectives": table("collectives", *executions(*sizes)),
            "waterfall": table("waterfall", *terms),
        },
        findings=FINDINGS.frame([finding(id=one) for one in findings]),
    )
    return tuned_job(found, Means(controllers, text), margin=0.02)
