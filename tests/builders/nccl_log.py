"""Lines of NCCL logs with invented hosts and numbers, and the recordings that are read of them."""

from collections.abc import Iterable
from pathlib import Path

from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.model.nccl_recording import NcclRecording


def said(text: str, *, host: str = "oak1", pid: int = 7100, tid: int = 7200, dev: int = 0) -> str:
    """One INFO line."""
    return f"{host}:{pid}:{tid} [{dev}] NCCL INFO {text}"


def of_rank(rank: int, text: str, *, per_host: int = 2, thread: int = 50) -> str:
    """One INFO line of a rank of a job with two ranks per host."""
    pid = 7000 + 100 * rank
    host = f"oak{rank // per_host}"
    return said(text, host=host, pid=pid, tid=pid + thread, dev=rank % per_host)


def init_line(rank: int, num_ranks: int, state: str, *, comm: int = 1, comm_id: str = "") -> str:
    """The words of Init START and Init COMPLETE."""
    end = f" commId {comm_id}" if comm_id else ""
    pointer = f"0x{0x55AA0000 + 0x1000 * rank + comm:x}"
    return (
        f"comm {pointer} rank {rank} nranks {num_ranks} cudaDev {rank % 2} nvmlDev {rank % 2} "
        f"busId {rank % 2 + 1}c000{end} - Init {state}"
    )


def call_line(rank: int, count: int, *, op: str = "AllReduce", dtype: int = 7, n: int = 0) -> str:
    """One COLL line of the first communicator of a rank."""
    pointer = f"0x{0x55AA0000 + 0x1000 * rank + 1:x}"
    return of_rank(
        rank,
        f"{op}: opCount {n:x} sendbuff 0x7f0000000000 recvbuff 0x7f0000000000 count {count} "
        f"datatype {dtype} op 0 root 0 comm {pointer} [nranks=4] stream 0x55bb0000",
    )


def job(
    via: str = "NET/IB/0/GDRDMA", *, num_ranks: int = 4, extra: Iterable[str] = ()
) -> list[str]:
    """A healthy log of NCCL 2.20 on hosts with two GPUs; ``extra`` lines are said by rank 0."""
    lines = ["NCCL version 2.20.5+cuda12.4"]
    for rank in range(num_ranks):
        peer = (rank + 1) % num_ranks
        inside = rank // 2 == peer // 2
        transport = "P2P/CUMEM/read" if inside else via
        printed = [
            "cudaDriverVersion 12040",
            f"Bootstrap : Using eth0:10.9.0.{rank // 2 + 1}<0>",
            f"NET/IB : Using [0]mlx5_7:1/RoCE [RO]; OOB eth0:10.9.0.{rank // 2 + 1}<0>"
            if "IB" in via
            else f"NET/Socket : Using [0]eth0:10.9.0.{rank // 2 + 1}<0>",
            f"Using network {'IB' if 'IB' in via else 'Socket'}",
            init_line(rank, num_ranks, "START", comm_id="0x51ab"),
            *(extra if rank == 0 else ()),
            f"Trees [0] {peer}/-1/-1->{rank}->-1 [1] -1/-1/-1->{rank}->{peer}",
            f"Channel 00/0 : {rank}[{rank % 2}] -> {peer}[{peer % 2}]"
            f"{'' if inside else ' [send]'} via {transport}",
            "Connected all rings",
            "4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, "
            "2 p2p channels per peer",
            init_line(rank, num_ranks, "COMPLETE", comm_id="0x51ab"),
        ]
        lines += [of_rank(rank, text) for text in printed]
    return lines


def recorded(folder: Path, lines: Iterable[str] | str, name: str = "nccl.log") -> NcclRecording:
    """What is read of a log with these lines."""
    text = lines if isinstance(lines, str) else "\n".join(lines) + "\n"
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return read_nccl_logs([path])


def interface_call(rank: int, text: str) -> str:
    """One line of level CALL, which names no device."""
    return of_rank(rank, text).replace(f" [{rank % 2}] NCCL INFO ", " NCCL CALL ")


def collective_call(rank: int, count: int, *, op: str = "AllReduce", dtype: int = 7) -> str:
    """The CALL line of a collective of the first communicator of a rank."""
    pointer = f"0x{0x55AA0000 + 0x1000 * rank + 1:x}"
    return interface_call(
        rank, f"nccl{op}(7f0000000200,7f0000000200,{count},{dtype},0,0,{pointer},0x55bb0000)"
    )


def init_call(rank: int, num_ranks: int, *, comm: int = 1, comm_id: str = "0x51ab") -> str:
    """The CALL line of a returned init."""
    pointer = f"0x{0x55AA0000 + 0x1000 * rank + comm:x}"
    return interface_call(
        rank, f"ncclCommInitRank({pointer}, {num_ranks}, {comm_id}, {rank}, {rank % 2})"
    )
