from pathlib import Path

import pytest

from hvdprof.ingest.logs.printed_file import PrintedFile, read_printed_file
from hvdprof.ingest.nccl import own_processes
from hvdprof.ingest.nccl.own_processes import NcclProcesses
from hvdprof.ingest.text.log_lines import PrintedLine

_CALL = "NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 8"
_OWN = [f"elm0:9000:{9000 + number % 3} [0] {_CALL}" for number in range(3000)]


def _written(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("place", [1, 1500, 2999])
@pytest.mark.parametrize(
    "other", [f"elm0:9001:9001 [1] {_CALL}", f"elm0:9000:90elm1:77:77 [1] {_CALL}"]
)
def test_a_second_process_is_found_wherever_it_prints(
    tmp_path: Path, place: int, other: str
) -> None:
    path = _written(tmp_path / "a.log", [*_OWN[:place], other, *_OWN[place:]])
    assert len(read_printed_file(path).nccl_processes) == 2


@pytest.mark.parametrize("prefix", ["", "node7: ", "[1,0]<stdout>:", "2026-01-01T00:00:00Z "])
def test_lines_of_a_known_process_are_passed_over_but_for_what_readers_want(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    lines = [prefix + line for line in _OWN]
    lines[1000] += " Exit code: 137"
    lines[2000:2000] = [prefix + line for line in ("Process name: [[1,1],1]", "  Exit code: 137")]
    path = _written(tmp_path / "a.log", lines)
    few, taken = _read(path, monkeypatch)
    monkeypatch.setattr(own_processes, "FEWEST_SEARCHED", len(lines) + 1)
    every, all_taken = _read(path, monkeypatch)
    assert few.nccl_processes == every.nccl_processes == {("elm0", "9000")}
    assert few.kinds == every.kinds
    assert few.tables or prefix
    for (name, frame), (other, same) in zip(few.tables, every.tables, strict=True):
        assert (name, frame.to_csv()) == (other, same.to_csv())
    assert all_taken == len(lines)
    assert taken < 10 or prefix


def _read(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[PrintedFile, int]:
    """What a file holds, and how many of its lines were read one by one."""
    taken: list[int] = []
    take = NcclProcesses.take

    def counted(self: NcclProcesses, line: PrintedLine) -> None:
        taken.append(line.number)
        take(self, line)

    with monkeypatch.context() as patch:
        patch.setattr(NcclProcesses, "take", counted)
        return read_printed_file(path), len(taken)
