import json
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.logs.ras_text import RasText
from tests.builders.printed import read_part

MISMATCH = """\
Job summary
===========

  Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
      0         1         1         8         8         8   RUNNING  MISMATCH

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  5 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 483072 on node 10.0.0.1
  Rank 2 -- GPU 2 managed by process 483074 on node 10.0.0.1
  Rank 7 has launched up to operation 6640 -- GPU 7 managed by process 9 on node 10.0.0.1

"""
INCOMPLETE = """\
#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  The missing ranks: 3,5

"""


def test_text_names_the_ranks_of_every_count(tmp_path: Path) -> None:
    tables, reader = read_part(RasText, MISMATCH, tmp_path)
    rows = tables["collective_progress"]
    assert dict(zip(rows["rank"], rows["last_enqueued"], strict=True)) == {
        0: 6649, 2: 6649, 7: 6640, 1: 6650, 3: 6650, 4: 6650, 5: 6650, 6: 6650,
    }  # fmt: skip
    assert set(rows["group"]) == {"27a079b828ff1a75"}
    assert reader.kinds() == ["NCCL RAS report"]


def test_ranks_whose_count_is_ambiguous_are_left_out(tmp_path: Path) -> None:
    text = MISMATCH.replace("  Rank 2 -- GPU 2", "  Note 2 -- GPU 2")
    rows = read_part(RasText, text, tmp_path)[0]["collective_progress"]
    assert sorted(rows["rank"]) == [0, 7]


@pytest.mark.heavy
def test_verdicts_name_who_is_behind_and_who_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(MISMATCH)
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith(
        "Rank 7 of communicator 27a079b828ff1a75 (GPU 7, pid 9 on 10.0.0.1) is behind: 6640 of "
        "6650 collectives launched."
    )
    assert "query again" in page.caveat
    path.write_text(MISMATCH + INCOMPLETE)
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("Ranks 3 and 5 of communicator cf264af53edbe986 give no data.")


def report(
    counts: dict[int, int], silent: tuple[int, ...] = (), size: int = 0
) -> dict[str, object]:
    ranks = [
        {"rank": rank, "status": {}, "collective_counts": {"AllReduce": count, "AllGather": 3}}
        for rank, count in counts.items()
    ]
    status = {"unresponsive": True, "considered_dead": False}
    missing = [{"rank": rank, "status": status} for rank in silent]
    return {
        "nccl_version": "2.29.1",
        "communicators_count": 1,
        "communicators": [
            {
                "hash": "0xab",
                "size": size or len(ranks + missing),
                "ranks": ranks,
                "missing_ranks": missing,
            }
        ],
    }


@pytest.mark.heavy
@pytest.mark.parametrize("before", ["", "OK\n"])
def test_json_sums_the_counts_of_a_rank(tmp_path: Path, before: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(before + json.dumps(report({0: 7, 1: 7, 2: 5}), indent=2))
    run = load_run(path)
    assert list(run.collective_progress["last_enqueued"]) == [10, 10, 8]
    (page,) = analyze_files(run).files
    assert page.kind == "NCCL RAS report (JSON)"
    assert page.verdict.startswith("Rank 2 of communicator 0xab is behind: 8 of 10 collectives")


@pytest.mark.heavy
def test_a_rank_that_does_not_answer_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "ras.json"
    path.write_text(json.dumps(report({0: 7, 2: 5}, silent=(1,))))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("Rank 1 of communicator 0xab is unresponsive.")


@pytest.mark.heavy
def test_equal_counts_name_no_rank(tmp_path: Path) -> None:
    path = tmp_path / "ras.json"
    path.write_text(json.dumps(report({0: 7, 1: 7})))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict == ("All 2 ranks of the report launched the same number of collectives.")


@pytest.mark.heavy
def test_ranks_that_the_report_does_not_list_are_not_called_equal(tmp_path: Path) -> None:
    path = tmp_path / "ras.json"
    path.write_text(json.dumps(report({0: 7, 1: 7}, size=4)))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith(
        "The 2 ranks that the report lists launched the same number of collectives; "
        "it lacks 2 more."
    )
    path.write_text(json.dumps(report({0: 7}, size=4)))
    (page,) = analyze_files(load_run(path)).files
    assert page.verdict.startswith("The report lists 1 rank; it lacks 3 more.")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(report({0: 7}))[:-20],
        json.dumps(report({0: 7})).replace('"ranks": [', '"ranks": [7, '),
        json.dumps(report({0: 7})).replace('"communicators": [', '"communicators": [7, '),
    ],
)
def test_a_damaged_report_ends_in_one_message(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(text)
    with pytest.raises(UnreadableInputError, match="damaged RAS report"):
        load_run(path)


@pytest.mark.heavy
def test_the_rank_with_the_fewest_collectives_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "ras.txt").write_text(MISMATCH)
    (page,) = analyze_files(load_run(tmp_path)).files
    (fact,) = [one for one in page.facts if one.name == "behind_ranks"]
    assert (fact.label, fact.text) == (
        "ranks with the fewest collectives",
        "7 (6640 of 6650 launched)",
    )
    assert fact.value == "7"


TABLE = """\
Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        16   RUNNING  {}
"""
COUNTS = """\
#0-0 (5c0ffee1a2b3c4d5) MISMATCH
  Communicator ranks have different AllReduce operation counts
"""
BY_13 = "GPU 5 managed by process 4711 on node 10.4.0.13"
NAMED = "Rank 13 of communicator 5c0ffee1a2b3c4d5 (GPU 5, pid 4711 on 10.4.0.13)"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"{COUNTS}  14 ranks have launched up to operation 641\n"
            "  2 ranks have not launched any operations\n"
            f"  Rank 12 -- {BY_13}\n  Rank 13 -- {BY_13}\n",
            "Ranks 12 and 13 of communicator 5c0ffee1a2b3c4d5 are behind: 0 of 641 AllReduce",
        ),
        (
            f"{COUNTS}  15 ranks have launched up to operation 641\n"
            f"  Rank 13 has not launched any operations -- {BY_13}\n",
            f"{NAMED} is behind: 0 of 641 AllReduce operations launched.",
        ),
        (
            f"{COUNTS}  15 ranks have launched up to operation 641\n"
            f"  1 rank has launched up to operation 640\n  Rank 13 -- {BY_13}\n",
            f"{NAMED} is behind: 640 of 641 AllReduce operations launched.",
        ),
        (
            f"{COUNTS}  8 ranks have launched up to operation 641\n"
            "  8 ranks have launched up to operation 640\n",
            "8 ranks of communicator 5c0ffee1a2b3c4d5 are behind: 640 of 641 AllReduce",
        ),
        (f"{COUNTS}  14 ranks have launched up to operation 641\n", "RAS reports MISMATCH, and"),
        (TABLE.format("MISMATCH"), "RAS reports MISMATCH, and this file does not say of which"),
        (TABLE.format("OK"), "RAS reports OK for 1 communicator, the largest of 16 ranks."),
        (
            "INCOMPLETE\n  Missing communicator data from 1 job process\n"
            "  Process 4711 on node 10.4.0.13 managing GPU 5\n\n",
            "RAS: 1 job process without data, GPU 5, pid 4711 on 10.4.0.13.",
        ),
        (
            "#0-0 (5c0ffee1a2b3c4d5) INCOMPLETE\n  Missing communicator data from 1 rank\n"
            f"  Rank 13 -- {BY_13}\n",
            f"{NAMED} gives no data.",
        ),
        (
            "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
            f"  Process 4711 on node 10.4.0.13 managing GPU 5\n\n{COUNTS}",
            "RAS: 1 job process dead, GPU 5, pid 4711 on 10.4.0.13.",
        ),
        (
            "RAS Monitor Mode - watching for peer changes (Ctrl+C to exit)...\n"
            "[2026-12-19 13:07:07] PEER_DEAD: Process 4711 on node 10.4.0.13 managing GPU 5\n",
            "RAS: 1 job process dead, GPU 5, pid 4711 on 10.4.0.13.",
        ),
        (
            "#0-0 (5c0ffee1a2b3c4d5) ERROR\n  Asynchronous error on 1 rank\n"
            f"  Rank 13 reported Remote process error -- {BY_13}\n",
            f"{NAMED} reported: Remote process error.",
        ),
        (
            "#0-0 (5c0ffee1a2b3c4d5) MISMATCH\n  Communicator ranks have different status\n"
            f"  15 ranks have status RUNNING\n  Rank 13 has status ABORT -- {BY_13}\n",
            f"{NAMED} reported: ABORT.",
        ),
    ],
)
def test_a_report_says_no_more_than_it_holds(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(text)
    (page,) = analyze_files(load_run(path)).files
    assert page.kind == "NCCL RAS report"
    assert page.verdict.startswith(said)


def test_counts_of_two_kinds_stay_apart(tmp_path: Path) -> None:
    text = TABLE.format("MISMATCH") + "".join(
        f"{COUNTS if kind == 'AllReduce' else ''}"
        f"  Communicator ranks have different {kind} operation counts\n"
        f"  15 ranks have launched up to operation {high}\n"
        f"  Rank {rank} has launched up to operation 3 -- {BY_13}\n\n"
        for kind, high, rank in (("AllReduce", 641, 13), ("Broadcast", 4, 2))
    )
    rows = read_part(RasText, text, tmp_path)[0]["collective_progress"]
    behind = rows[rows["last_enqueued"] == 3]
    assert [*zip(behind["collective"], behind["rank"], strict=True)] == [
        ("AllReduce", 13),
        ("Broadcast", 2),
    ]
    assert len(rows) == 32


def test_ranks_of_a_communicator_without_all_its_ranks_are_not_numbered(tmp_path: Path) -> None:
    text = (
        TABLE.format("INCOMPLETE,MISMATCH")
        + COUNTS
        + "  14 ranks have launched up to operation 641\n"
        + f"  Rank 3 has launched up to operation 640 -- {BY_13}\n"
    )
    rows = read_part(RasText, text, tmp_path)[0]["collective_progress"]
    assert list(rows["rank"]) == [3]


def test_communicators_and_ranks_without_data_are_not_mixed_up(tmp_path: Path) -> None:
    path = tmp_path / "ras.txt"
    path.write_text(
        f"{TABLE.format('INCOMPLETE')}\n#0-0 (5c0ffee1a2b3c4d5) INCOMPLETE\n"
        "  Missing communicator data from 12 ranks\n"
    )
    (page,) = analyze_files(load_run(path)).files
    shown = {fact.name: fact.text for fact in page.facts}
    assert shown["num_communicators"] == "1 communicator of 16 ranks: INCOMPLETE"
    assert shown["num_without_data"] == "12 of communicator 5c0ffee1a2b3c4d5"


EVENT = """{
  "timestamp": "2025-12-19 13:07:07",
  "group": "LIFECYCLE",
  "event": "%s",
  "peer": {
    "host": "10.4.0.13",
    "pid": 4711,
    "cuda_devs": [5,6],
    "nvml_devs": [5,6]
  },
  "details": ""
}
"""


@pytest.mark.parametrize("before", ["", "OK\n"])
def test_events_of_ncclras_m_name_the_processes_that_died(tmp_path: Path, before: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(before + EVENT % "OTHER" + EVENT % "PEER_DEAD" + EVENT.partition("peer")[0])
    (row,) = load_run(path).table("ras_statements").to_dict("records")
    assert (row["problem"], row["host"], row["pid"], row["gpu"]) == (
        "DEAD",
        "10.4.0.13",
        4711,
        "5,6",
    )
    assert row["line"] == 13 + bool(before)
    text = tmp_path / "ras.txt"
    text.write_text(
        "[2025-12-19 13:07:07] PEER_DEAD: Process 4711 on node 10.4.0.13 managing GPUs 5,6\n"
    )
    said = [analyze_files(load_run(one)).files[0].verdict for one in (path, text)]
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EVENT % "OTHER", "holds 1 event of ncclras -m; no process died"),
        (EVENT.replace('"pid": 4711,', '"pid": ,') % "PEER_DEAD", "damaged RAS report"),
    ],
)
def test_events_without_a_death_say_what_to_query(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ras.json"
    path.write_text(text)
    with pytest.raises(UnreadableInputError, match=said) as caught:
        load_run(path)
    assert "ncclras -v -f json" in caught.value.hint
