from pathlib import Path

import pytest

from hvdprof.ingest.logs.stall_warnings import OPENING, StallWarnings
from tests.builders.places import CORPUS, needs_corpus
from tests.builders.printed import read_part

WARNING = f"{OPENING} of ranks and are waiting for remainder of ranks for more than 60 seconds. "
STAMP = "[2026-11-20 21:56:18.   278: W <src>/stall_inspector.cc:107] "

FORMS = {
    "0.13": f"loss=0.9]WARNING: {WARNING}Stalled ops: a.w [ready ranks: 1, 7], b [ready ranks: 1]",
    "0.14": f"WARNING: {WARNING}\nStalled ops:\na.w [missing ranks: 0, 2]\nb [missing ranks: 0]",
    "0.16": f"{STAMP}{WARNING}\nStalled ops:a.w [missing ranks: 1]\n{STAMP}b [missing ranks: 1]",
    "0.17": f"{STAMP}{WARNING}\nStalled ranks:\n6: [a.w, b ...]",
    "0.28": f"{STAMP}{WARNING}\nMissing ranks:\n0: [a.w]\n8: [b]",
    "shutdown": f"{STAMP}{WARNING}\nMissing ranks:\n1!: [a.w, b ...]",
}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("form", "rows"),
    [
        ("0.13", [("ready", 1, "a.w"), ("ready", 7, "a.w"), ("ready", 1, "b")]),
        ("0.14", [("missing", 0, "a.w"), ("missing", 2, "a.w"), ("missing", 0, "b")]),
        ("0.16", [("missing", 1, "a.w"), ("missing", 1, "b")]),
        ("0.17", [("missing", 6, "a.w"), ("missing", 6, "b")]),
        ("0.28", [("missing", 0, "a.w"), ("missing", 8, "b")]),
        ("shutdown", [("missing", 1, "a.w"), ("missing", 1, "b")]),
    ],
)
@pytest.mark.parametrize("tag", ["", "[1,0]<stderr>:", "[0]<stderr>:"])
def test_every_form(tmp_path: Path, form: str, rows: list[tuple[str, int, str]], tag: str) -> None:
    text = "\n".join(tag + line for line in FORMS[form].split("\n"))
    tables, _ = read_part(StallWarnings, text, tmp_path)
    stalls = tables["stalls"]
    assert list(zip(stalls["state"], stalls["stalled_rank"], stalls["tensor"], strict=True)) == rows
    assert set(stalls["waited_s"]) == {60.0}
    assert set(stalls["cut"]) == {form in ("0.17", "shutdown")}
    assert set(stalls["shutdown"]) == {form == "shutdown"}


def test_lines_of_other_ranks_stand_between(tmp_path: Path) -> None:
    lines = FORMS["0.28"].split("\n")
    text = f"{lines[0]}\nepoch 3 loss 0.1\n{lines[1]}\nepoch 4\n{lines[2]}\nepoch 5\n{lines[3]}"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    assert list(tables["stalls"]["line"]) == [5, 7]


def test_lists_without_a_warning_are_none(tmp_path: Path) -> None:
    tables, reader = read_part(StallWarnings, "1: [a, b]\nx [missing ranks: 1]\n", tmp_path)
    assert len(tables["stalls"]) == 0
    assert reader.kinds() == []


@needs_corpus
def test_the_specimens_of_all_versions(tmp_path: Path) -> None:
    text = (CORPUS / "specimens" / "horovod_stall_forms_from_issues.txt").read_text()
    tables, _ = read_part(StallWarnings, text, tmp_path)
    stalls = tables["stalls"]
    assert stalls["warning"].nunique() == 6
    by_warning = stalls.groupby("warning")["stalled_rank"].agg(lambda ranks: sorted(set(ranks)))
    assert list(by_warning) == [[0, 1, 4, 5, 6, 7], [0, 2], [1], [6], [0, 8], [0]]


@pytest.mark.parametrize("broken", ["1, 4\n, 7], b", "1, 4, 7\n], b", "1, \n4, 7], b"])
def test_a_list_of_ranks_may_be_broken_over_lines(tmp_path: Path, broken: str) -> None:
    text = f"WARNING: {WARNING}Stalled ops: a.w [ready ranks: {broken} [ready ranks: 2]\n"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    stalls = tables["stalls"]
    assert list(zip(stalls["tensor"], stalls["stalled_rank"], strict=True)) == [
        ("a.w", 1),
        ("a.w", 4),
        ("a.w", 7),
        ("b", 2),
    ]


def test_a_list_that_is_not_continued_stays_cut(tmp_path: Path) -> None:
    text = f"WARNING: {WARNING}Stalled ops: a.w [ready ranks: 1, 4\nstep 3\n, 7] b\n"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    assert tables["stalls"].empty


def test_a_warning_whose_beginning_is_cut_keeps_its_ranks(tmp_path: Path) -> None:
    text = f"{STAMP}a.w [missing ranks: 1]\n{STAMP}b [missing ranks: 1]\n"
    tables, reader = read_part(StallWarnings, text, tmp_path)
    assert tables["stalls"]["tensor"].tolist() == ["a.w", "b"]
    assert tables["stalls"]["waited_s"].isna().all()
    assert reader.notes() == []
    headed, _ = read_part(StallWarnings, "Stalled ops: \na.w [ready ranks: 1], \n", tmp_path)
    assert headed["stalls"]["state"].tolist() == ["ready"]


def test_ranks_in_prose_are_no_stall(tmp_path: Path) -> None:
    tables, reader = read_part(StallWarnings, "we saw a.w [missing ranks: 1] once\n", tmp_path)
    assert tables["stalls"].empty
    assert reader.kinds() == []


def test_the_waited_time_may_stand_in_the_next_line(tmp_path: Path) -> None:
    broken = WARNING.replace("remainder", "remaind\ner")
    text = f"{STAMP}{broken}\nStalled ranks:\n6: [a.w, b ...]\n"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    assert tables["stalls"]["waited_s"].tolist() == [60.0, 60.0]


@pytest.mark.parametrize("title", ["Missing ranks:", "Stalled ranks:"])
@pytest.mark.parametrize(
    ("opening", "waited_s"),
    [
        (f"{STAMP}One or more ten[12/99]\nsubmitted to be reduced, gathered or broadcasted by "
         "subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n",
         60.0),
        ("", None),
    ],
)  # fmt: skip
def test_the_list_stands_behind_a_cut_opening_sentence(
    tmp_path: Path, title: str, opening: str, waited_s: float | None
) -> None:
    text = f"{opening}[0]<stderr>:{title}\n[0]<stderr>:2: [a, b]\n[0]<stderr>:3: [a]\n"
    tables, reader = read_part(StallWarnings, text, tmp_path)
    rows = tables["stalls"]
    assert [*zip(rows["stalled_rank"], rows["tensor"], strict=True)] == [
        (2, "a"),
        (2, "b"),
        (3, "a"),
    ]
    assert set(rows["waited_s"].dropna()) == ({waited_s} if waited_s else set())
    assert set(rows["warning"]) == {0}
    assert reader.notes() == []


def test_a_list_of_names_may_be_wrapped_or_cut(tmp_path: Path) -> None:
    text = f"{WARNING}\nMissing ranks:\n0: [bcast.size]\n8: [grad.conv, grad.de\nnse, grad.bi\n"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    rows = tables["stalls"]
    columns = rows[["stalled_rank", "tensor", "cut"]].to_numpy().tolist()
    assert columns == [
        [0, "bcast.size", False],
        [8, "grad.conv", True],
        [8, "grad.dense", True],
    ]
    whole = text.replace("grad.bi\n", "grad.bi]\n9: [grad.last]\n")
    tables, _ = read_part(StallWarnings, whole, tmp_path)
    assert tables["stalls"]["tensor"].tolist()[-2:] == ["grad.bi", "grad.last"]
    assert not tables["stalls"]["cut"].any()


def test_lists_whose_warning_is_cut_off_are_stalls_each_a_warning(tmp_path: Path) -> None:
    name = "Callback/HorovodAllreduce_acc_0"
    text = f"{name} [missing ranks: 0, 3]\n{name} [missing ranks: 0]\n"
    tables, _ = read_part(StallWarnings, text, tmp_path)
    rows = tables["stalls"]
    assert rows[["warning", "stalled_rank"]].to_numpy().tolist() == [[0, 0], [0, 3], [1, 0]]


def test_the_long_line_of_old_versions_may_be_wrapped_anywhere(tmp_path: Path) -> None:
    line = f"WARNING: {WARNING} Stalled ops: " + ", ".join(
        f"allreduce.layer{n}.weight [ready ranks: 1, 7]" for n in range(9)
    )
    whole = read_part(StallWarnings, line + "\n", tmp_path)[0]["stalls"]
    assert len(whole) == 18
    for width in (60, 80, 132):
        text = "".join(f"{line[at : at + width]}\n" for at in range(0, len(line), width))
        found = read_part(StallWarnings, text, tmp_path)[0]["stalls"]
        columns = ["tensor", "state", "stalled_rank"]
        assert found[columns].to_numpy().tolist() == whole[columns].to_numpy().tolist()
