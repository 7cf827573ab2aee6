"""Kept recordings of two variants, compared again: the table counts what the comparison names."""

from benchmarks.compare_pairs import Case, compared_again, table
from tests.builders.analysis import with_a_straggler
from tests.builders.run_directory import write_run


def result(outcome, *ranks):
    causes = [
        {
            "term": "rank-change",
            "ranks": rank,
            "phase": phase,
            "own_change_ns": 4.5e6,
            "moved": True,
        }
        for rank, phase in ranks
    ]
    jitter = {"term": "jitter", "ranks": "", "phase": "", "own_change_ns": None, "moved": True}
    return {"outcome": outcome, "causes": [*causes, jitter]}


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_rank_that_sleeps_is_counted_apart_from_all_others():
    lines = list(
        table(
            {
                Case(0.0, 0): result("equal"),
                Case(0.0, 1): result("inconclusive", ("1", "forward")),
                Case(0.05, 0): result("regressed", ("1", "forward")),
                Case(0.05, 1): result("regressed", ("1", "forward"), ("0", "backward")),
                Case(0.05, 2): result("inconclusive", ("0", "forward")),
            }
        )
    )
    same, slower = map(cells_of, lines[2:])
    # Of the same script no rank is right.
    assert same == ["the same", "2", "0", "0", "1", "1", "-", "1", "-", "-"]
    assert slower[1:8] == ["3", "2", "0", "0", "1", "2", "2"]
    assert slower[8:] == ["4.25", "4.50 (4.50 to 4.50)"]


def test_stored_recordings_are_compared_without_measuring(tmp_path):
    case = Case(0.05, 0)
    assert compared_again(case, tmp_path) is None
    write_run(tmp_path / case.name / "a", with_a_straggler(extra_ms=(0.02, 0.0, 0.01)))
    write_run(tmp_path / case.name / "b", with_a_straggler(extra_ms=(0.42, 0.38, 0.41)))
    found = compared_again(case, tmp_path)

    assert found["outcome"] == "regressed"
    (row,) = [row for row in found["causes"] if row["moved"]]
    assert (row["term"], row["ranks"], row["phase"]) == ("rank-change", "1", "forward")
    assert sorted(tmp_path.iterdir()) == [tmp_path / case.name]
