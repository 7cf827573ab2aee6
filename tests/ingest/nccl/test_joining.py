"""The view `nccl_nics`: each device by name, with the rank that uses it."""

from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.ingest.nccl.joining import Communicator, jobs_of, join_members
from hvdprof.ingest.nccl.logbook import Member
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.model.notes import texts
from tests.builders.run_directory import PassSpec, write_run

JOB_LOG = """NCCL version 2.18.5+cuda12.2
{host}:{pid}:{pid} [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
{host}:{pid}:{pid} [0] NCCL INFO comm 0x5{pid} rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0xabc - Init START
{host}:{pid}:{pid} [0] NCCL INFO comm 0x5{pid} rank {rank} nranks 2 cudaDev 0 busId 1000 commId 0xabc - Init COMPLETE
"""  # noqa: E501


def log_of(rank: int) -> str:
    return JOB_LOG.format(host=f"node-{'ab'[rank]}", pid=4000 + rank, rank=rank)


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


LOG = """\
n1:10:20 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
n1:10:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:11:21 [1] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.1<0>
n1:10:20 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/1/GDRDMA
n1:10:20 [0] NCCL INFO Channel 01/0 : 3[1] -> 0[0] [receive] via NET/IB/1
n1:11:21 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0
n1:10:20 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 busId 1000 commId 0x7 - Init COMPLETE
n1:11:21 [1] NCCL INFO comm 0x2 rank 1 nranks 4 cudaDev 1 busId 2000 commId 0x7 - Init COMPLETE
n1:11:21 [1] NCCL INFO comm 0x3 rank 0 nranks 2 cudaDev 1 busId 2000 commId 0x8 - Init COMPLETE
"""


def members(*ranks: tuple[int, int | None, int, str]) -> list[Member]:
    """Ranks as (process, rank, number of ranks, commId), completed in this order."""
    return [
        Member(
            process,
            f"0x{number}",
            rank,
            size,
            "log",
            number,
            comm_id=comm_id,
            complete=True,
            complete_order=number,
        )
        for number, (process, rank, size, comm_id) in enumerate(ranks)
    ]


def joined(*ranks: tuple[int, int | None, int, str]) -> list[tuple[tuple[int, ...], str, int]]:
    found: list[Communicator] = join_members(members(*ranks))
    return [(one.members, one.join, one.num_joined) for one in found]


def test_the_comm_id_distinguishes_communicators() -> None:
    assert joined((0, 0, 2, "a"), (1, 0, 2, "b"), (0, 1, 2, "b"), (1, 1, 2, "a")) == [
        ((0, 3), "commId", 1),
        ((1, 2), "commId", 1),
    ]


def test_the_only_set_of_its_size_is_one_communicator() -> None:
    assert joined((0, 0, 2, ""), (0, 0, 1, ""), (1, 1, 2, "")) == [
        ((0, 2), "complete", 1),
        ((1,), "single", 1),
    ]
    assert joined((0, 0, 3, ""), (1, 2, 3, "")) == [((0, 1), "partial", 1)]


def test_complete_sets_of_the_same_processes_come_one_after_the_other() -> None:
    assert joined((0, 0, 2, ""), (1, 1, 2, ""), (1, 1, 2, ""), (0, 0, 2, "")) == [
        ((0, 1), "order", 1),
        ((2, 3), "order", 1),
    ]


def test_sets_that_cannot_be_distinguished_are_ambiguous() -> None:
    by_turns = joined((0, 0, 2, ""), (2, 0, 2, ""), (1, 1, 2, ""), (3, 1, 2, ""))
    assert by_turns == [((0, 1, 2, 3), "ambiguous", 2)]
    other_processes = joined((0, 0, 2, ""), (1, 1, 2, ""), (2, 0, 2, ""), (3, 1, 2, ""))
    assert other_processes == [((0, 1, 2, 3), "ambiguous", 2)]


def test_the_same_rank_twice_is_two_communicators() -> None:
    assert joined((0, 0, 2, ""), (0, 0, 2, "")) == [((0,), "partial", 1), ((1,), "partial", 1)]
    assert joined((0, None, 2, ""), (0, None, 2, "")) == [
        ((0,), "pointer", 1),
        ((1,), "pointer", 1),
    ]


def test_a_device_has_its_name_its_rank_and_its_connections(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(LOG)
    nics = read_nccl_logs([log]).nics
    data = nics[nics["purpose"] == "data"]
    rows = data[["rank", "name", "num_connections", "gpudirect"]].to_numpy().tolist()
    assert rows == [
        [0, "mlx5_0", 0, False],
        [0, "mlx5_1", 2, True],
        [1, "mlx5_0", 1, False],
        [1, "mlx5_1", 0, False],
    ]


def test_bootstrap_interfaces_carry_no_connection(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text(LOG)
    nics = read_nccl_logs([log]).nics
    others = nics[nics["purpose"] != "data"]
    assert set(others["name"]) == {"eth0"}
    assert not others["num_connections"].any()


def test_a_process_without_a_communicator_has_no_rank(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    log.write_text("\n".join(LOG.splitlines()[:5]) + "\n")
    assert read_nccl_logs([log]).nics["rank"].isna().all()
