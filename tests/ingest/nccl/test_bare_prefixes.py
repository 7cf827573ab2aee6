"""Lines of NCCL whose host, or host and process, people removed before they showed the log."""

from pathlib import Path

import pytest

from hvdprof.api import load_tables
from hvdprof.ingest.nccl.reader import read_nccl_logs

TEXTS = (
    ("INFO NCCL version 2.5.7+cuda10.0", 0),
    ("INFO Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0", 0),
    ("INFO Ring 00 : 1[1b000] -> 2[1c000] via P2P/IPC", 1),
    ("INFO Ring 00 : 0[1b000] -> 7[41000] via direct shared memory", 0),
)
FORMS = {
    "device": " [{device}] NCCL {text}",
    "numbered": "{number}  [{device}] NCCL {text}",
    "process": "{pid}:{pid} [{device}] NCCL {text}        ",
    "colon": ":{pid}:{pid} [{device}] NCCL {text}",
}


def log(form: str) -> str:
    return "".join(
        FORMS[form].format(device=device, number=number, pid=700 + device, text=text) + "\n"
        for number, (text, device) in enumerate(TEXTS, start=1)
    )


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_log_without_hosts_is_a_log(tmp_path: Path, form: str) -> None:
    path = tmp_path / "job.out"
    path.write_text(log(form))
    tables = load_tables(path)
    assert tables.nccl_connections["transport"].astype(str).tolist() == ["NET", "P2P", "SHM"]
    assert tables.nccl_versions["version"].astype(str).tolist() == ["2.5.7"]
    assert set(tables.nccl_connections["host"].astype(str)) == {""}
    known = form in ("process", "colon")
    pids = set(tables.nccl_connections["pid"])
    assert pids == {700, 701} if known else max(pids) < 0


def test_a_warning_keeps_its_source_line(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("700:700 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n")
    problems = read_nccl_logs([path]).problems
    assert problems["text"].astype(str).tolist() == ["Failed to open libibverbs.so[.1]"]


def test_the_rest_of_a_torn_line_is_no_line_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(
        "n1:10:20 [0] NCCL INFO Channel 00 : 0[1000] -> 1[2000] via P2P/IPC\n"
        " [0] NCCL INFO Channel 01 : 0[1000] -> 1[2000] via P2P/IPC\n"
    )
    assert set(read_nccl_logs([path]).connections["host"].astype(str)) == {"n1"}


def test_lines_without_a_host_are_not_put_together(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text(
        ":57:57 [0] NCCL INFO Unheard of plugin /opt/libnccl-net.so\n"
        ":57:57 [0] NCCL INFO ENV/Plugin: Closing env plugin ncclEnvDefault\n"
    )
    recording = read_nccl_logs([path])
    assert recording.line_kinds["count"].sum() == 2
    assert not any("put together" in note.text for note in recording.notes)
