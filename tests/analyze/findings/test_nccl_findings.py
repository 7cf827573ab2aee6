from dataclasses import replace
from pathlib import Path

import pytest

from hvdprof.analyze.findings.nccl_findings import nccl_findings
from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.model.nccl_recording import NcclRecording
from tests.builders.finding_style import style_faults
from tests.builders.nccl_log import init_line, job, of_rank, recorded, said
from tests.builders.places import CORPUS, needs_corpus

WATCHDOG = (
    "[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=1, OpType=ALLGATHER) ran for 120008 milliseconds"
)
WARN = "oak0:7000:7050 [0] {where} NCCL WARN {text}"
NVLINK = "+ NVL[240.0] - GPU/2C000"
LOOPBACK = "NET/Socket : Using [0]lo:127.0.0.1<0>"
REFUSED = "Net : Connect to 10.9.0.2<33092> failed : Connection refused"
UNNAMED = "Call to ibv_open_device failed"
UNOPENED = WARN.format(
    where="transport/net_ib.cc:117", text="NET/IB : Unable to open device mlx5_4"
)


def ids(recording: NcclRecording, *, least: str = "warning") -> list[str]:
    """Ids of the findings that are at least that grave."""
    found = nccl_findings(recording)
    wanted = ("error", "warning", "note")[: ("error", "warning", "note").index(least) + 1]
    return found.loc[found["severity"].isin(wanted), "id"].astype(str).tolist()


@pytest.mark.heavy
def test_a_healthy_job_has_no_findings(tmp_path: Path) -> None:
    assert nccl_findings(recorded(tmp_path, job())).empty


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        (job(num_ranks=2, extra=[LOOPBACK]), None),
        (job(num_ranks=4, extra=[LOOPBACK]), "warning"),
        ([line for line in job(extra=[LOOPBACK]) if line.startswith("oak0:7000")], "note"),
    ],
    ids=["all on one host", "two hosts", "one rank of four"],
)
def test_an_interface_that_stays_on_the_host_matters_between_hosts(
    tmp_path: Path, lines: list[str], severity: str | None
) -> None:
    found = nccl_findings(recorded(tmp_path, lines))
    rows = found[found["id"] == "nccl-wrong-interface"].to_dict("records")

    assert [row["severity"] for row in rows] == ([severity] if severity else [])
    for row in rows:
        is_unknown = "does not show whether ranks are on other hosts" in str(row["evidence"])
        assert is_unknown == (severity == "note")


BROKEN: dict[str, tuple[list[str], list[str]]] = {
    "devices that cannot be opened": (
        [*job("NET/Socket/0"), UNOPENED],
        ["nccl-socket-despite-rdma"],
    ),
    "sockets asked for": (
        job(
            "NET/Socket/0",
            extra=["NCCL_IB_DISABLE set by environment to 1.", "Bootstrap : Using ib0:10.1.0.2<0>"],
        ),
        ["nccl-socket-despite-rdma"],
    ),
    "channels limited beside NVLink": (
        [
            line.replace("4 coll channels", "2 coll channels")
            for line in job(
                extra=["+ NVL[240.0] - GPU/2C000", "NCCL_MAX_NCHANNELS set by environment to 2."]
            )
        ],
        ["nccl-setting-hurts"],
    ),
    "plugin missing": (
        job(
            "NET/Socket/0",
            extra=[
                "NET/Plugin : No plugin found (libnccl-net.so), using internal implementation",
                "FI_PROVIDER set by environment to efa",
            ],
        ),
        ["nccl-plugin-missing"],
    ),
    "plugin without a provider": (
        job("NET/Socket/0", extra=["NET/OFI No eligible providers were found"]),
        ["nccl-plugin-missing"],
    ),
    "wrong interface": (
        job("NET/Socket/0", extra=["NET/Socket : Using [0]docker0:172.17.0.1<0>"]),
        ["nccl-wrong-interface"],
    ),
    "GPUDirect too far": (
        job("NET/IB/0", extra=["GPU Direct RDMA Disabled for GPU 1c000 / HCA 0 (distance 6 > 4)"]),
        ["nccl-gpudirect-off"],
    ),
    "GPUDirect off before any connection": (
        [
            "vm:7:7 [0] NCCL INFO Using network IB",
            "vm:7:7 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_7'",
        ],
        ["nccl-gpudirect-off"],
    ),
    "NVLS that cannot be set up": (
        [
            "vm:7:7 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'not in this state'",
            "vm:7:7 [1] NCCL INFO transport/nvls.cc:409 -> 1",
        ],
        ["nccl-optional-part-failed"],
    ),
    "MNNVL that cannot be set up": (
        ["vm:7:7 [1] mnnvl.cc:42 NCCL WARN MNNVL (cliqueSize 2) is not available: no fabric"],
        ["nccl-optional-part-failed"],
    ),
    "GIN that cannot be set up": (
        ["vm:7:7 [1] gin/gin_host.cc:42 NCCL WARN Cuda failure 1 'invalid argument'"],
        ["nccl-optional-part-failed"],
    ),
    "GPUDirect module missing": (
        job("NET/IB/0", extra=["NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_7'"]),
        ["nccl-gpudirect-off"],
    ),
    "peer access forbidden": (
        job(extra=["NCCL_P2P_LEVEL set by environment to LOC"]),
        ["nccl-p2p-disabled"],
    ),
    "shared memory forbidden": (
        job(extra=["NCCL_SHM_DISABLE set by environment to 1."]),
        ["nccl-shm-disabled"],
    ),
    "topology file without NVLink": (
        [
            line.replace("4 coll channels", "2 coll channels")
            for line in job(
                extra=[
                    "NCCL_TOPO_FILE set by environment to /home/ann/topo.xml",
                    "=== System : maxBw 24.0 totalBw 24.0 ===",
                    "+ PCI[24.0] - GPU/1C000 (0)",
                    "+ PCI[24.0] - GPU/2C000 (1)",
                ]
            )
        ],
        ["nccl-topology-file"],
    ),
    "few channels beside NVLink": (
        [
            line.replace("4 coll channels", "1 coll channels")
            for line in job(extra=["+ NVL[240.0] - GPU/2C000"])
        ],
        ["nccl-few-channels"],
    ),
    "tiny buffers": (
        job(extra=["NCCL_BUFFSIZE set by environment to 65536."]),
        ["nccl-setting-hurts"],
    ),
    "stuck in init": (
        [*(line for line in job() if "COMPLETE" not in line), WATCHDOG],
        ["nccl-stuck-in-init"],
    ),
    "no connection": (
        [*job()[:5], WARN.format(where="misc/socket.cc:4", text=REFUSED)],
        ["nccl-connection-failed"],
    ),
    "connection lost with a trail": (
        [
            *job(),
            WARN.format(where="misc/socket.cc:4", text=REFUSED),
            of_rank(0, "bootstrap.cc:9 -> 2"),
        ],
        ["nccl-error-trail"],
    ),
    "work request": (
        [
            *job(),
            WARN.format(
                where="transport/net_ib.cc:1",
                text="NET/IB : Got completion from peer 1.2.3.4<4> with error 12, vendor err 129",
            ),
        ],
        ["nccl-ib-completion-error"],
    ),
    "error trail": (
        [
            *job(),
            WARN.format(where="include/socket.h:3", text="Net : Call to recv failed"),
            of_rank(0, "transport/net_socket.cc:9 -> 2"),
            of_rank(0, "init.cc:915 -> 2"),
        ],
        ["nccl-error-trail"],
    ),
    "died": ([*job(), "oak1: rank 2 died from signal 9"], ["nccl-rank-died"]),
    "aborted by the watchdog": (
        [*job(), WATCHDOG, "oak1: rank 1 died from signal 6", "oak1: rank 2 died from signal 15"],
        [],
    ),
    "killed before the watchdog gave up": (
        [*job(), "oak1: rank 2 died from signal 9", WATCHDOG],
        ["nccl-rank-died"],
    ),
    "aborted by itself": (
        [*job(), "oak1: rank 2 died from signal 15", "oak1: rank 3 died from signal 6"],
        ["nccl-rank-died"],
    ),
    "devices without a name that cannot be opened": (
        [*job("NET/Socket/0"), WARN.format(where="misc/ibvwrap.cc:212", text=UNNAMED)],
        ["nccl-socket-despite-rdma"],
    ),
    "versions": (
        [
            *job(),
            of_rank(0, "NCCL version 2.20.5+cuda12.4"),
            of_rank(1, "NCCL version 2.19.3+cuda12.4"),
        ],
        ["nccl-version-mismatch"],
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("case", BROKEN)
def test_every_problem_has_its_finding_and_no_other(tmp_path: Path, case: str) -> None:
    lines, wanted = BROKEN[case]
    assert sorted(ids(recorded(tmp_path, lines))) == sorted(wanted)


@pytest.mark.heavy
@pytest.mark.parametrize("case", BROKEN)
def test_the_quote_is_the_line_itself_and_the_rest_is_short(tmp_path: Path, case: str) -> None:
    lines, _ = BROKEN[case]
    for finding in nccl_findings(recorded(tmp_path, lines)).to_dict("records"):
        assert finding["quote"] == lines[finding["line"] - 1]
        assert finding["file"] == str(tmp_path / "nccl.log")
        assert style_faults(finding) == []


@pytest.mark.heavy
def test_a_disabled_gpudirect_is_no_fact_on_the_module(tmp_path: Path) -> None:
    lines, _ = BROKEN["GPUDirect module missing"]
    more = [line.replace("HCA 0 'mlx5_7'", "HCA 1 'mlx5_8'") for line in lines]
    (row,) = nccl_findings(recorded(tmp_path, lines + more)).to_dict("records")
    assert row["title"] == "GPUDirect RDMA off: on 2 adapters"
    assert "states no reason" in row["evidence"]
    assert "missing" not in row["evidence"]
    assert row["fix"].startswith("check with `lsmod | grep peermem` whether")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("extra", "via", "note"),
    [
        (["NCCL_ALGO set by environment to Ring"], "NET/IB/0/GDRDMA", "nccl-setting-hurts"),
        ([], "NET/IB/0", "nccl-gpudirect-unused"),
        (
            ["Channel 01 : 0[0] -> 1[1] via SHM/direct/direct"],
            "NET/IB/0/GDRDMA",
            "nccl-p2p-unavailable",
        ),
        (["NET/Socket : Using [0]hsn0:10.1.1.1<0>"], "NET/Socket/0", "nccl-fabric-over-tcp"),
        (["NCCL_TOPO_FILE set by environment to /a.xml"], "NET/IB/0/GDRDMA", "nccl-topology-file"),
    ],
)
def test_what_is_only_unusual_is_a_note(
    tmp_path: Path, extra: list[str], via: str, note: str
) -> None:
    recording = recorded(tmp_path, job(via, extra=extra))
    assert ids(recording) == []
    assert ids(recording, least="note") == [note]
    assert [style_faults(row) for row in nccl_findings(recording).to_dict("records")] == [[]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "lines",
    [
        BROKEN["few channels beside NVLink"][0],
        BROKEN["stuck in init"][0],
        job("NET/IB/0"),
    ],
    ids=["nccl-few-channels", "nccl-stuck-in-init", "nccl-gpudirect-unused"],
)
def test_what_hvdprof_has_logged_is_not_asked_for_again(tmp_path: Path, lines: list[str]) -> None:
    by_user = recorded(tmp_path, lines)
    by_hvdprof = replace(by_user, of_hvdprof=True)
    (asked,), (logged,) = (nccl_findings(one).to_dict("records") for one in (by_user, by_hvdprof))
    assert "NCCL_DEBUG_SUBSYS=" in asked["action"]
    assert "NCCL_DEBUG" not in logged["action"]
    assert style_faults(logged) == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    "extra",
    [
        ["NCCL_P2P_DISABLE set by environment to 0.", "NCCL_SHM_DISABLE set by environment to 0"],
        ["NCCL_BUFFSIZE set by environment to 8388608."],
        ['NET/OFI Setting NCCL_PROTO to "simple"', "NCCL_PROTO set by environment to simple"],
        ["NCCL_TOPO_FILE set by environment to /opt/aws-ofi-nccl/share/p4d.xml"],
        ["include/net.h:32 -> 2", "Could not find real path of /sys/class/net/eth0/device"],
        ["NET/Plugin: Failed to find ncclCollNetPlugin_v5 symbol."],
    ],
)
def test_harmless_settings_and_lines_give_no_finding(tmp_path: Path, extra: list[str]) -> None:
    assert ids(recorded(tmp_path, job(extra=extra)), least="note") == []


@pytest.mark.heavy
def test_devices_that_cannot_be_opened_are_harmless_beside_one_that_can(tmp_path: Path) -> None:
    assert "nccl-socket-despite-rdma" not in ids(recorded(tmp_path, [*job(), UNOPENED]))


@pytest.mark.heavy
def test_devices_that_cannot_be_opened_are_a_note_without_any_connection(tmp_path: Path) -> None:
    unnamed = WARN.format(where="misc/ibvwrap.cc:212", text=UNNAMED)
    recording = recorded(tmp_path, [said("NCCL version 2.20.5+cuda12.4"), unnamed, unnamed])
    assert ids(recording, least="note") == ["nccl-devices-unopened"]
    found = nccl_findings(recording).to_dict("records")[0]
    assert "device 2 times" in found["evidence"]
    assert style_faults(found) == []


@pytest.mark.heavy
def test_a_twin_with_more_channels_is_reported(tmp_path: Path) -> None:
    twin = [
        line.replace("4 coll channels", "12 coll channels")
        .replace("0x51ab", "0x77")
        .replace("oak", "elm")
        .replace("0x55aa", "0x66bb")
        for line in job()
    ]
    lines = [line.replace("4 coll channels", "2 coll channels") for line in job()]
    assert ids(recorded(tmp_path, [*lines, *twin])) == ["nccl-few-channels"]


@pytest.mark.heavy
@pytest.mark.parametrize("lost", ["COMPLETE", "START", "Channel", "Trees", "coll channels"])
@pytest.mark.parametrize("rank", [0, 3])
def test_a_missing_line_is_no_error(tmp_path: Path, lost: str, rank: int) -> None:
    host = f":{7000 + 100 * rank}:"
    lines = [line for line in job() if not (lost in line and host in line)]
    assert ids(recorded(tmp_path, lines), least="note") == []
    assert ids(recorded(tmp_path, [*lines, WATCHDOG])) == []


@pytest.mark.heavy
def test_a_timeout_of_a_later_collective_shows_that_every_init_was_completed(
    tmp_path: Path,
) -> None:
    lines = [line for line in job() if "COMPLETE" not in line]
    later = WATCHDOG.replace("SeqNum=1", "SeqNum=3")
    assert ids(recorded(tmp_path, [*lines, later]), least="note") == []


@pytest.mark.heavy
def test_a_log_that_ends_in_init_is_a_note(tmp_path: Path) -> None:
    lines = job()
    first_complete = next(i for i, line in enumerate(lines) if "COMPLETE" in line)
    found = nccl_findings(recorded(tmp_path, lines[:first_complete]))
    assert found["severity"].tolist() == ["note"]
    assert "it was cut, or the ranks hang" in found["evidence"].iloc[0]
    assert [style_faults(row) for row in found.to_dict("records")] == [[]]


@pytest.mark.heavy
def test_nccl_continued_only_where_later_lines_show_it(tmp_path: Path) -> None:
    warned = WARN.format(where="graph/xml.cc:5", text="Could not find something")
    lines = job()
    before = recorded(tmp_path, [*lines[:5], warned, *lines[5:]])
    (found,) = nccl_findings(before).to_dict("records")
    assert found["id"] == "nccl-warnings"
    assert "It continued: line" in found["evidence"]
    (found,) = nccl_findings(recorded(tmp_path, [*lines, warned])).to_dict("records")
    assert "does not show whether the job continued" in found["evidence"]
    assert style_faults(found) == []


@pytest.mark.heavy
def test_a_connection_that_is_tried_again_is_no_error(tmp_path: Path) -> None:
    retry = "Call to connect returned Connection refused, retrying"
    assert ids(recorded(tmp_path, job(extra=[retry])), least="note") == []
    assert ids(recorded(tmp_path, [*job(), of_rank(0, retry)])) == ["nccl-connection-failed"]


@pytest.mark.heavy
def test_bare_versions_of_two_jobs_are_a_note(tmp_path: Path) -> None:
    lines = [*job(), "NCCL version 2.19.3+cuda12.4"]
    (found,) = nccl_findings(recorded(tmp_path, lines)).to_dict("records")
    assert (found["id"], found["severity"]) == ("nccl-version-mismatch", "note")
    assert style_faults(found) == []


@pytest.mark.heavy
def test_ib_disable_without_a_sign_of_infiniband_is_no_finding(tmp_path: Path) -> None:
    lines = job("NET/Socket/0", extra=["NCCL_IB_DISABLE set by environment to 1."])
    assert ids(recorded(tmp_path, lines), least="note") == []


@pytest.mark.heavy
def test_the_evidence_shows_the_thing_claimed(tmp_path: Path) -> None:
    few = [line.replace("4 coll channels", "1 coll channels") for line in job(extra=[NVLINK])]
    (found,) = nccl_findings(recorded(tmp_path, few)).to_dict("records")
    assert "1 coll channels" in found["quote"]
    end = init_line(0, 4, "COMPLETE").replace("Init COMPLETE", "Abort COMPLETE")
    (found,) = nccl_findings(recorded(tmp_path, [*job(), of_rank(0, end)])).to_dict("records")
    assert found["quote"].endswith("Abort COMPLETE")
    assert "of 1 rank were" in found["evidence"]


def test_the_log_is_not_asked_why_where_it_is_an_excerpt(tmp_path: Path) -> None:
    line = of_rank(0, "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")
    (found,) = nccl_findings(recorded(tmp_path, [line])).to_dict("records")
    assert "The log does not show why." in found["evidence"]


@pytest.mark.heavy
def test_an_empty_recording_of_a_version_alone_gives_nothing(tmp_path: Path) -> None:
    assert nccl_findings(recorded(tmp_path, ["NCCL version 2.20.5+cuda12.4"])).empty
    assert nccl_findings(recorded(tmp_path, [said("Using network IB")])).empty


CORPUS_PROBLEMS = {
    "cuiboyuan_2.20.5_all_subsys_oom_abort_rank0.log": {"nccl-p2p-disabled"},
    "stas_ib_error12_wrapped.log": {"nccl-ib-completion-error"},
    "thomaslie_smartio_p2p_disabled_allreduce.txt": {"nccl-p2p-disabled"},
    "stackhpc_TCP-8GPU-2PF.log": {"nccl-socket-despite-rdma"},
    "stackhpc_TCP-8GPU-4PF.log": {"nccl-socket-despite-rdma"},
    "alcf_sophia_n2g8_all_reduce.txt": {"nccl-error-trail"},
}
"""Everything graver than a note in the public logs; all files not named here are healthy."""


def corpus_logs() -> list[Path]:
    return [
        *sorted(CORPUS.glob("nccl_logs/*")),
        *sorted(CORPUS.glob("horovod_logs/stackhpc*")),
        *sorted(CORPUS.glob("nccl_tests/alcf_sophia*")),
    ]


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize("path", corpus_logs(), ids=lambda path: path.name)
def test_public_logs_give_their_findings_and_healthy_logs_give_none(path: Path) -> None:
    recording = read_nccl_logs([path])
    assert set(ids(recording)) == CORPUS_PROBLEMS.get(path.name, set())
    assert [
        fault for row in nccl_findings(recording).to_dict("records") for fault in style_faults(row)
    ] == []


@pytest.mark.slow
@needs_corpus
def test_the_problems_of_public_logs_name_existing_files() -> None:
    assert CORPUS_PROBLEMS.keys() <= {path.name for path in corpus_logs()}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Call to posix_fallocate failed : No space left on device", "shared memory of NCCL"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9)", "shared memory"),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "no memory for the"),
        ("NET/OFI Unable to register memory (type = 1), Error: Cannot allocate memory", "no mem"),
        (
            "NET/IB : req 0/1 tag 0 peer 10.0.0.6<5> collective mismatch error, local size 4 "
            "remote size 2",
            "collective mismatch, says NCCL",
        ),
    ],
)
def test_warnings_have_their_meaning(tmp_path: Path, text: str, title: str) -> None:
    line = WARN.format(where="misc/x.cc:1", text=text)
    found = nccl_findings(recorded(tmp_path, [line, said("transport/net.cc:683 -> 2")]))
    assert found["id"].tolist() == ["nccl-known-warning"]
    assert str(found["phrase"].iloc[0]).startswith(title)
    assert found["severity"].tolist() == ["error"]
    assert [style_faults(row) for row in found.to_dict("records")] == [[]]


def test_a_warning_without_any_prefix_is_one(tmp_path: Path) -> None:
    text = "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-n to 9 bytes"
    assert ids(recorded(tmp_path, [text])) == ["nccl-known-warning"]
