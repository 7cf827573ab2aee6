"""The view `nccl_nics`: each device by name, with the rank that uses it."""

from pathlib import Path

from hvdprof.ingest.nccl.reader import read_nccl_logs

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
