"""The rank that submits last: named beyond chance and noise alone, and never without a caveat."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import FilePage, Gravity
from tests.builders.flight_dumps import STARTED_NS, Content, dump, write_dumps

MS = 1_000_000
STEP_NS = 100 * MS
Late = Callable[[int, int], float]
"""Lateness in ms of a rank in a step."""


def dumps_of(
    late: Late,
    *,
    num_ranks: int = 4,
    num_steps: int = 30,
    buckets: int = 2,
    library: str = "nccl",
) -> dict[int, Content]:
    """Steps of 100 ms, with some buckets 1 ms apart, and jitter of up to 1 ms."""
    rng = np.random.default_rng(1)
    dumps = {}
    for rank in range(num_ranks):
        number = num_steps * buckets
        content = dump(ranks=range(num_ranks), enqueued=number, completed=number, library=library)
        entries = content["entries"]
        assert isinstance(entries, list)
        for place, one in enumerate(entries):
            step, bucket = divmod(place, buckets)
            lateness_ns = int((late(rank, step) + rng.uniform(0, 1)) * MS)
            one["time_created_ns"] = STARTED_NS + step * STEP_NS + bucket * MS + lateness_ns
        dumps[rank] = content
    return dumps


def page_of(folder: Path, dumps: dict[int, Content]) -> FilePage:
    pages = analyze_files(load_run(write_dumps(folder, dumps))).files
    return next(page for page in pages if "Flight Recorder" in page.kind)


def only(rank: int, by_ms: float) -> Late:
    return lambda one, step: by_ms if one == rank else 0.0


def test_the_rank_that_is_always_last_is_named_with_the_evidence(tmp_path: Path) -> None:
    page = page_of(tmp_path, dumps_of(only(2, 20.0)))
    assert page.verdict.startswith(
        "No rank is behind: all 4 ranks submitted and completed the same collectives. By the "
        "clocks of the hosts, rank 2 submits last in 29 of 29 rounds (58 all-reduces); the others "
        "wait 20.8 ms per round (21.4 % of the recorded time)."
    )
    assert "By chance, equal ranks cause as much in at most 0.10 % of jobs." in page.caveat
    assert "looks the same. On one host the straggler is certain." in page.caveat
    assert "Hosts submit ahead of their GPUs" in page.caveat
    assert page.gravity == Gravity.WARNING


def test_gloo_has_no_gpu_to_submit_ahead_of(tmp_path: Path) -> None:
    page = page_of(tmp_path, dumps_of(only(2, 20.0), library="gloo"))
    assert "rank 2 submits last" in page.verdict
    assert "GPU" not in page.caveat


def test_arrivals_within_noise_name_no_straggler(tmp_path: Path) -> None:
    verdict = page_of(tmp_path, dumps_of(lambda rank, step: 0.0)).verdict
    assert (
        "No straggler: rank 1 submits last in 13 of 59 all-reduces; the others wait 50.6 µs per"
        in verdict
    )


def test_a_small_constant_lateness_is_no_straggler(tmp_path: Path) -> None:
    verdict = page_of(tmp_path, dumps_of(only(1, 3.0))).verdict
    assert "No straggler: rank 1 submits last in 29 of 29 rounds (58 all-reduces)" in verdict
    assert "the others wait 3.70 ms per round (3.8 % of the recorded time)" in verdict


def test_a_last_rank_that_changes_is_not_named(tmp_path: Path) -> None:
    page = page_of(tmp_path, dumps_of(lambda rank, step: 40.0 * (rank == step % 4)))
    assert "No persistent straggler: rank 1 submits last in 8 of 29 rounds" in page.verdict
    assert "; for all ranks 41.6 %). By chance, equal ranks cause as much in most" in page.verdict
    assert page.gravity == Gravity.NONE


@pytest.mark.heavy
def test_a_rank_is_named_beside_long_waits_for_another(tmp_path: Path) -> None:
    def late(rank: int, step: int) -> float:
        return 45.0 * (step % 5 == 1) if rank == 0 else 20.0 * (rank == 3)

    verdict = page_of(tmp_path, dumps_of(late)).verdict
    assert "rank 3 submits last in 23 of 29 rounds (58 all-reduces); the others wait" in verdict
    assert "Also rank 0" not in verdict


def test_buckets_of_a_step_are_one_round(tmp_path: Path) -> None:
    """Of two ranks, 3 steps of 4 buckets are no evidence, though one rank is last 12 times."""
    page = page_of(tmp_path, dumps_of(only(1, 20.0), num_ranks=2, num_steps=3, buckets=4))
    assert (
        "Too few rounds to name a straggler: rank 1 submits last in 3 of 3 rounds" in page.verdict
    )
    assert page.gravity == Gravity.NONE


def test_clocks_that_are_seconds_apart_are_not_compared(tmp_path: Path) -> None:
    page = page_of(tmp_path, dumps_of(only(1, 10_000.0)))
    assert "The last rank is unknown." in page.verdict
    assert "the clocks of the hosts differ" in page.caveat
    assert "in only 1 round" in page.caveat


def test_of_several_groups_the_one_with_the_waits_is_named(tmp_path: Path) -> None:
    dumps = dumps_of(lambda rank, step: 0.0)
    slow = dumps_of(lambda rank, step: 20.0 * (rank == 3))
    for rank, content in dumps.items():
        members = [0, 1] if rank < 2 else [2, 3]
        name = str(1 + rank // 2)
        group = {"name": name, "desc": "TENSOR_PARALLEL", "ranks": str(members)}
        entries = slow[rank]["entries"]
        assert isinstance(entries, list)
        content["pg_config"] = {name: group}
        status = content["pg_status"]
        assert isinstance(status, dict)
        content["pg_status"] = {name: status["0"]}
        content["entries"] = [
            one | {"pg_id": int(name), "process_group": (name, "TENSOR_PARALLEL")}
            for one in entries
        ]
    verdict = page_of(tmp_path, dumps).verdict
    assert "rank 3 submits last in 29 of 29 rounds (58 all-reduces) of process group 2" in verdict


def test_collectives_of_ranks_without_a_dump_have_no_last_rank(tmp_path: Path) -> None:
    dumps = dumps_of(only(2, 20.0))
    del dumps[1]
    page = page_of(tmp_path, dumps)
    assert "submits last" not in page.verdict
    assert "No dump of rank 1" in page.caveat


@pytest.mark.parametrize("missing", [0, 1])
def test_a_hang_is_all_that_is_said(tmp_path: Path, missing: int) -> None:
    dumps = {
        rank: dump(ranks=range(2), enqueued=40 - (rank == missing), completed=39, late_ns=rank * MS)
        for rank in range(2)
    }
    verdict = page_of(tmp_path, dumps).verdict
    assert verdict.startswith("Hang: rank ")
    assert "submits last" not in verdict
