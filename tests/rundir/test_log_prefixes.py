import pytest

from hvdprof.rundir.failures.log_prefixes import split_rank, tagged_rank, without_colours


@pytest.mark.parametrize(
    ("line", "rank", "text"),
    [
        ("[1,3]<stderr>:ValueError: no", 3, "ValueError: no"),
        ("[1,3]<stderr>: ValueError: no", 3, " ValueError: no"),
        ("[2]<stdout>:  File", 2, "  File"),
        ("Fri Jun 19 08:53:03 2020[1,0]<stdout>:x", 0, "x"),
        ("[1,mpirank:4,algo-1]<stdout>:x", 4, "x"),
        ("[rank1]: RuntimeError: boom", 1, "RuntimeError: boom"),
        ("[7] words", 7, "words"),
        (" 0: words", 0, "words"),
        ("12: words", 12, "words"),
        ("1: [allreduce.1, allreduce.2]", None, "1: [allreduce.1, allreduce.2]"),
        ("[0]:", None, "[0]:"),
        ("mpirun noticed [1,0]<stderr>:this", None, "mpirun noticed this"),
    ],
)
def test_the_rank_of_a_line_by_its_tag(line: str, rank: int | None, text: str) -> None:
    assert split_rank(line) == (rank, text)


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [("[1,0]<stdout>:[1,2]<stdout>:", 2), ("3: ", 3), ("[4] ", 4), ("[4] host", None), ("", None)],
)
def test_the_last_tag_of_a_prefix_counts(prefix: str, rank: int | None) -> None:
    assert tagged_rank(prefix) == rank


def test_colours_are_taken_off() -> None:
    assert without_colours("\x1b[0;36m(Worker)\x1b[0;0m x") == "(Worker) x"
