from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.nccl.nccl_jobs import jobs_of
from hvdprof.model.notes import texts
from tests.builders.run_directory import PassSpec, write_run

LOG = """NCCL version 2.18.5+cuda12.2
{host}:{pid}:{pid} [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
{host}:{pid}:{pid} [0] NCCL INFO comm 0x5{pid} rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0xabc - Init START
{host}:{pid}:{pid} [0] NCCL INFO comm 0x5{pid} rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0xabc - Init COMPLETE
"""  # noqa: E501


def log_of(rank: int) -> str:
    return LOG.format(host=f"node-{'ab'[rank]}", pid=4000 + rank, rank=rank)


def test_logs_of_ranks_belong_together_and_others_do_not() -> None:
    folder = Path("x")
    ranks = {
        folder / "nccl.node-a.4000.log": {("node-a", "4000")},
        folder / "nccl.node-b.4001.log": {("node-b", "4001")},
    }
    others = {
        folder / "other.log": {("c", "1")},
        folder / "many.log": {("c", "1"), ("c", "2")},
        Path("y") / "nccl.node-b.4001.log": {("node-b", "4001")},
    }
    jobs = jobs_of({**ranks, **others})
    assert jobs == [list(ranks), *([path] for path in others)]


@pytest.mark.heavy
def test_one_communicator_of_two_files(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"nccl.node-{'ab'[rank]}.{4000 + rank}").write_text(log_of(rank))
    run = load_run(tmp_path)
    assert len(run.nccl) == 1
    communicators = run.table("nccl_communicators")
    assert list(communicators["num_ranks_complete"]) == [2]
    assert [page.kind for page in analyze_files(run).files] == ["2 NCCL logs"]


@pytest.mark.heavy
def test_communicators_of_two_jobs_keep_apart(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"job{'ab'[number]}.out").write_text(log_of(0) + log_of(1))
    run = load_run(tmp_path)
    assert len(run.nccl) == 2
    assert run.table("nccl_communicators")["communicator"].is_unique
    ranks = run.table("nccl_ranks")
    assert ranks.groupby("communicator")["file"].nunique().tolist() == [1, 1]


@pytest.mark.heavy
def test_the_nccl_logs_of_a_run_directory(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [PassSpec(size=2)])
    (manifest_pass,) = load_run(folder).manifest.passes
    logs = folder / "passes" / manifest_pass.id / "nccl"
    logs.mkdir()
    for rank in range(2):
        (logs / f"node.{rank}.log").write_text(log_of(rank))
    run = load_run(folder)
    assert list(run.table("nccl_communicators")["num_ranks_complete"]) == [2]
    (logs / "node.0.log").write_text("nothing\n")
    (logs / "node.1.log").write_text("nothing\n")
    assert any("no line of NCCL's" in note for note in texts(load_run(folder).notes))
