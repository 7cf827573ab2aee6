import json

import pytest

from benchmarks import attribution
from benchmarks.attribution import CaseFailedError, grid, main, read_results
from benchmarks.attribution_simulated import Setting, markdown, score
from benchmarks.case_table import table

STEP_NS = 70e6


def result(name, *, share=0.1, phase="backward", rank=1, named=(), size=2):
    return {
        "name": name,
        "np": size,
        "phase": phase,
        "rank": rank,
        "share": share,
        "every": 1,
        "repeat": 0,
        "fault_ns": share * 60e6,
        "first": named[0][0] if named else -1,
        "named": [{"rank": one, "phase": where, "cost_ns": cost} for one, where, cost in named],
        "step_ns": STEP_NS,
        "cost_ns": 1e6,
        "load": 0.5,
        "num_clocks": 4,
        "num_clocks_right": 3,
    }


def test_every_case_has_a_name_of_its_own_and_sizes_come_before_worlds():
    cases = grid(quick=False)

    assert len({case.name for case in cases}) == len(cases)
    first = cases[: len(cases) // 5]
    assert {case.np for case in first} == {2, 4, 8}
    assert {case.name for case in grid(quick=True)} < {case.name for case in cases}


def test_what_was_right_and_what_was_wrong_is_counted():
    text = table(
        [
            result("right", named=[(1, "backward", 6.6e6)]),
            result("phase wrong", named=[(1, "data", 6e6)]),
            result("rank wrong", named=[(0, "backward", 5e6)]),
            result("missed"),
            result("clean", share=0, phase="", rank=-1),
            result("alarm", share=0, phase="", rank=-1, named=[(0, "data", 4e6)]),
            result("clock", share=0, phase="clock"),
        ]
    )

    row, *others = [line for line in text.splitlines() if line.startswith("| 2 |")]
    assert "| 10% | 8.6% | 4 | 2 of 4 | 2 of 4 | 1 of 4 | 1 of 4 | 5.0% (10.0%) |" in row
    assert "0 of 1" in next(line for line in others if "skewed clock" in line)
    assert "1 of 2" in next(line for line in others if "clean" in line)
    assert "right rank costliest 50.0%, named 50.0%, right phase 25.0%" in text
    assert "in 2 of the 2 missed the rank costs less" in text
    assert "0.5 to 0.5, median 0.5" in text
    assert "of 3 ranks named at any size: 66.7%" in text
    assert "within its bound in 3 of 4 exchanges" in text


def test_a_cut_off_line_is_taken_away(tmp_path):
    log = tmp_path / "cases.jsonl"
    log.write_text(json.dumps(result("whole")) + '\n{"name": "to')

    assert [one["name"] for one in read_results(log)] == ["whole"]
    assert log.read_text() == json.dumps(result("whole")) + "\n"
    assert read_results(tmp_path / "none.jsonl") == []


def test_a_failed_case_is_left_out_and_done_the_next_time(tmp_path, monkeypatch, capsys):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- real begin -->\nold\n<!-- real end -->\nafter\n")
    arguments = ["attribution", "--quick", "--folder", str(tmp_path), "--write", str(page)]
    monkeypatch.setattr("sys.argv", arguments)
    broken = {"np2-forward-rank1-10-every1-0"}

    def launched(case, folder):
        if case.name in broken:
            raise CaseFailedError("no ranks")
        return result(case.name, share=case.share, phase=case.phase, rank=case.rank)

    judged = []

    def found_in(run, rank):
        judged.append((run.name, rank))
        return {}

    monkeypatch.setattr(attribution, "run_case", launched)
    monkeypatch.setattr(attribution, "found_in", found_in)
    main()
    assert "1 cases have no result yet, 1 failed." in capsys.readouterr().err

    broken.clear()
    judged.clear()
    main()
    assert "no result" not in capsys.readouterr().err
    # The runs of the call before are analyzed again.
    assert sorted(judged) == sorted((case.name, case.rank) for case in grid(quick=True))
    names = [one["name"] for one in read_results(tmp_path / "cases.jsonl")]
    assert sorted(names) == sorted(case.name for case in grid(quick=True))
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| 2 | 10% |" in text


def test_it_gives_up_where_everything_fails(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["attribution", "--folder", str(tmp_path)])

    def launched(case, folder):
        raise CaseFailedError("no Horovod")

    monkeypatch.setattr(attribution, "run_case", launched)
    main()

    assert capsys.readouterr().err.count("no Horovod") == attribution.MOST_FAILURES


@pytest.mark.parametrize(("share", "num_right"), [(0.2, 6), (0.0, 0)])
def test_simulated_launches_are_scored(share, num_right):
    found = score((Setting(4, "independent", share, 1), 6))

    assert (found.rank_right, found.phase_right, found.another) == (num_right, num_right, 0)
    assert [named for _, named in found.true_costs] == [True] * num_right
    assert "100.0%" in markdown({Setting(4, "independent", share, 1): found}) or not share
