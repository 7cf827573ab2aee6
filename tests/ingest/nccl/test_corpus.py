"""Public logs of other people, read where they lie; the numbers are those of their index."""

import re
from functools import cache
from pathlib import Path

import pytest

from hvdprof.ingest.nccl.reader import read_nccl_logs
from hvdprof.ingest.text.printed_lines import LogFile
from hvdprof.model.nccl_recording import NcclRecording
from hvdprof.rundir.failures.log_prefixes import TAG, without_colours
from tests.builders.places import CORPUS, needs_corpus

pytestmark = [pytest.mark.slow, needs_corpus]

NO_BEGINNING = {
    ("alcf_polaris_vae_20250115_with_aws.log", "GDR"): 1,
    ("alcf_polaris_vae_20250115_with_aws.log", "OFI"): 1,
    ("alcf_polaris_resnet50_20250115_with_aws_HANG.log", "MNNVL"): 1,
}
"""Lines that lost their beginning to another writer, so that no reader can use them."""

WORDS = {"NVLS": "NVLS", "COLLNET": "CollNet", "PXN": "PXN"}
"""Words that the index counts in lines that no column of a table is made of."""


def indexed(*folders: str) -> list[tuple[str, str]]:
    """Path and counted features of the files in the index; of every NCCL log by default."""
    if not CORPUS.is_dir():
        return []
    rows = [row.split(" | ") for row in (CORPUS / "INDEX.md").read_text().splitlines()]
    starts = tuple(f"| {one}" for one in folders or ("nccl_logs/", "horovod_logs/stackhpc"))
    return [
        (row[0].removeprefix("| "), row[3])
        for row in rows
        if len(row) > 4 and row[0].startswith(starts)
    ]


def counts_of(features: str) -> dict[str, int]:
    return {name: int(number) for name, number in re.findall(r"([\w/]+)=(\d+)", features)}


def raw_text(path: str) -> str:
    with (CORPUS / path).open(encoding="utf-8", errors="replace", newline="") as stream:
        return stream.read()


@cache
def recording_of(path: str) -> NcclRecording:
    return read_nccl_logs([CORPUS / path])


def counted(path: str) -> dict[str, int]:
    """What the tables hold of each feature that the index counts."""
    recording = recording_of(path)
    connections, kinds = recording.connections, recording.line_kinds
    via = connections["via"].astype(str)
    network = connections["network"].astype(str)
    problems = recording.problems.loc[
        recording.problems["kind"].isin(["warning", "completion"]), "count"
    ]
    trees = recording.line_kinds.loc[(kinds["kind"] == "Trees") & kinds["understood"], "count"]
    levels = kinds.set_index("kind")["count"].groupby(level=0, observed=True).sum()
    timings = recording.init_timings
    choices = recording.choices
    # Of a choice of 2.22 and later the index counts the algorithm and the channels.
    ranged = int(choices["first_channel"].notna().sum())
    plugin = recording.traces["text"].astype(str).str.startswith("NET/OFI")
    return {
        "OFI": levels.get("NET/OFI", 0) + int(plugin.sum() + (network == "AWS Libfabric").sum()),
        "MNNVL": int(recording.ranks["num_nodes"].notna().sum()),
        "TUNE": len(choices) + ranged + int(levels.get("Algorithm", 0)),
        "Ring": int(levels.get("Ring", 0)),
        "P2P/IPC": int(via.str.startswith("P2P/IPC").sum()),
        "P2P/CUMEM": int(via.str.startswith("P2P/CUMEM").sum()),
        "P2P/direct": int(via.str.startswith("P2P/direct").sum()),
        "SHM": int((connections["transport"] == "SHM").sum()),
        "IB": int((network == "IB").sum()),
        "SOCK": int((network == "Socket").sum()),
        "GDR": int(connections["gpudirect"].sum()),
        "Init": int(recording.ranks["complete"].sum()),
        "Initt": int((timings["part"].eq("total") & timings["stage"].eq("init")).sum()),
        "Tree": int(trees.sum()),
        "thr": int(levels.get("threadThresholds", 0)),
        "coll_op": len(recording.calls),
        "WARN": int(problems.sum()),
        "TRACE": len(recording.traces),
    }


@pytest.mark.parametrize(("path", "features"), indexed(), ids=lambda value: Path(value).name)
def test_the_tables_hold_what_the_index_counts(path: str, features: str) -> None:
    mine = counted(path)
    counts = counts_of(features)
    for name in counts.keys() & mine.keys():
        lost = NO_BEGINNING.get((Path(path).name, name), 0)
        assert mine[name] == counts[name] - lost, name


@pytest.mark.parametrize(("path", "features"), indexed(), ids=lambda value: Path(value).name)
def test_versions_are_those_of_the_index(path: str, features: str) -> None:
    versions = set(re.findall(r"NCCL version (\d+\.\d+\.\d+)", features))
    assert set(recording_of(path).versions["version"]) == versions


@pytest.mark.parametrize(("path", "features"), indexed(), ids=lambda value: Path(value).name)
def test_nearly_every_line_is_understood(path: str, features: str) -> None:
    kinds = recording_of(path).line_kinds
    damaged = 3 if "HANG" in path or "overwritten" in path or "vae" in path else 0
    assert kinds.loc[~kinds["understood"], "count"].sum() <= damaged


@pytest.mark.parametrize(("path", "features"), indexed(), ids=lambda value: Path(value).name)
def test_lines_with_words_that_the_index_counts_are_understood(path: str, features: str) -> None:
    counts, text = counts_of(features), raw_text(path)
    kinds = recording_of(path).line_kinds
    unknown = " ".join(kinds.loc[~kinds["understood"], "sample"].astype(str))
    for name in counts.keys() & WORDS.keys():
        assert text.count(WORDS[name]) == counts[name]
        assert WORDS[name] not in unknown


@pytest.mark.parametrize(
    ("path", "features"),
    indexed("nccl_logs/", "horovod_logs/"),
    ids=lambda value: Path(value).name,
)
def test_tags_colours_and_carriage_returns_are_those_of_the_index(path: str, features: str) -> None:
    counts, text = counts_of(features), raw_text(path)
    assert len(TAG.findall(text)) == counts.get("mpi_pref", 0)
    assert text.count("\x1b") == counts.get("ANSI", 0)
    assert "\x1b" not in without_colours(text)
    if "CRLF" in counts:
        assert text.count("\r\n") == counts["CRLF"]
    lines = [line.text for line in LogFile(CORPUS / path).lines()]
    assert not any("\r" in line or "\x1b" in line for line in lines)


def test_every_feature_of_the_index_is_held_against_something() -> None:
    others = {"ver", "mpi_pref", "ANSI", "CRLF"}
    names = {name for _, features in indexed() for name in re.findall(r"([\w/]+)=", features)}
    assert names <= counted("nccl_logs/keitaw_p5_2.22.3.log").keys() | WORDS.keys() | others


def test_ranks_that_never_completed_are_known() -> None:
    ranks = recording_of("nccl_logs/alcf_polaris_resnet50_20250115_with_aws_HANG.log").ranks
    assert sorted(ranks.loc[ranks["complete"], "rank"]) == [0, 2, 3]
    assert sorted(ranks.loc[ranks["started"] & ~ranks["complete"], "rank"]) == [1, 5, 7]


def test_communicators_of_one_size_are_distinguished_only_where_the_log_does() -> None:
    recording = recording_of("nccl_logs/bigscience_meg_ds_3d_gpt2_perf_n16.out")
    joins = recording.communicators["join"].value_counts()
    assert joins["single"] == 64
    assert set(recording.communicators["num_ranks"]) == {1, 2, 4, 16, 64}
    ambiguous = recording.communicators[recording.communicators["join"] == "ambiguous"]
    assert set(ambiguous["num_ranks"]) == {2, 4, 16}
    assert (ambiguous["num_joined"] > 1).all()


def test_overwritten_files_give_both_ranks() -> None:
    recording = recording_of("nccl_logs/raddet_2gpu_shm_overwritten.log")
    assert recording.ranks["rank"].tolist() == [1, 0]
    assert set(recording.ranks["host"]) == {"ljm"}


def test_channel_counts() -> None:
    recording = recording_of("nccl_logs/timezzx_nccl_all_subsys.log")
    assert recording.communicators["num_coll_channels"].tolist() == [24]
    assert len(recording.choices) == 495
    assert recording.calls["rank"].value_counts().to_dict() == {0: 495, 1: 495}
    assert (recording.links["kind"] == "NVL").sum() == 4
