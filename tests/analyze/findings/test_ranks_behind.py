from hvdprof.analyze.findings.log_rules.ranks_behind_rule import ranks_behind
from hvdprof.model.tables.rank_collective_tables import COLLECTIVE_TIMEOUTS
from tests.builders.declared_rows import declared_rows


def states(*enqueued: int, group: str = "0 PG GUID 0(default_pg)", file: str = "job.out"):
    return [
        {
            "file": file,
            "rank": rank,
            "line": 10 + rank,
            "group": group,
            "last_enqueued": number,
            "last_completed": number - 1,
            "sequence": 7,
        }
        for rank, number in enumerate(enqueued)
    ]


def found(rows):
    return list(ranks_behind(declared_rows(COLLECTIVE_TIMEOUTS, *rows)))


def test_the_rank_that_enqueued_the_fewest_is_named():
    (finding,) = found(states(811, 811, 807, 811))
    assert finding.row()["title"] == "Rank 2 behind: 4 collectives missing"
    assert finding.row()["phrase"] == "rank 2 behind (4 collectives missing)"
    assert "Last collective enqueued by rank 2: 807, completed 806." in finding.evidence
    assert (finding.file, finding.line) == ("job.out", 12)


def test_the_output_of_each_rank_may_be_a_file_of_its_own():
    rows = [{**row, "file": f"rank{row['rank']}.out"} for row in states(5, 4)]
    (finding,) = found(rows)
    assert finding.file == "rank1.out"


def test_equal_numbers_name_no_rank():
    assert found(states(811, 811)) == []


def test_other_groups_and_two_jobs_are_not_compared():
    assert found(states(5, 4, group="3 PG GUID 9")) == []
    assert found(states(5, 5) + states(9, 9, file="other.out")) == []


def test_the_last_state_of_a_rank_counts():
    assert found([*states(5, 9), {**states(9)[0], "line": 50}]) == []
