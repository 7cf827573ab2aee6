from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.ingest.logs.printed_file import PrintedFile, read_printed_file
from hvdprof.ingest.logs.printed_rates import PrintedRates
from hvdprof.ingest.rates import bars
from hvdprof.ingest.text.log_lines import PrintedLine
from tests.builders.examples import examples

DRAWS = st.builds(
    "{}{:3d}%|{:10s}| {}/100 [00:07{}, {}{}".format,
    st.sampled_from(["", "", "Epoch 3: ", "train: ", "  train: ", "Downloading the shards: "]),
    st.integers(0, 30),
    st.sampled_from(["####", "\u2588\u2588", "3#", "a"]),
    st.integers(0, 30),
    st.sampled_from(["<05:21", "<05:21", "<?", ""]),
    st.sampled_from(["3.21", "12", "?", "0.00", "1e-05"]),
    st.sampled_from(["it/s]", "it/s]", "s/it]", "it/s, loss=3]", "it/s, v_num=1]", "it/s, lo"]),
)
OTHERS = st.sampled_from(
    [
        "a line of a script that is of no reader, and long enough for one that a terminal wraps",
        "12it [00:07,  3.21it/s]",
        "tokens per iteration will be: 4,096",
        "Number of GPUs: 4",
        "",
    ]
)
PREFIXES = st.sampled_from(["", "[1,3]<stdout>:", "2026-11-20T21:56:09.123456789Z ", "1: ", "    "])
ENDS = st.sampled_from(["\n", "\n", "\r", "\r\n"])


def contents(file: PrintedFile) -> tuple[Any, ...]:
    tables = {name: frame.astype(object).to_csv() for name, frame in file.tables}
    return file.num_lines, file.kinds, tables, file.notes


def rates(path: Path) -> list[tuple[Any, ...]]:
    [frame] = [frame for name, frame in read_printed_file(path).tables if name == "printed_rates"]
    columns = frame[["line", "rank", "iteration", "rate", "step_ns"]].astype(object)
    return list(columns.where(columns.notna(), None).itertuples(index=False, name=None))


@settings(
    deadline=None,
    max_examples=examples(80),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    lines=st.lists(st.tuples(PREFIXES, DRAWS | DRAWS | OTHERS, ENDS), min_size=30, max_size=60),
    same=st.booleans(),
)
def test_a_block_of_bars_gives_what_they_give_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[tuple[str, str, str]], same: bool
) -> None:
    path = tmp_path / "job.log"
    prefix = lines[0][0]
    text = "".join((prefix if same else own) + draw + end for own, draw, end in lines)
    path.write_text(text, encoding="utf-8", newline="")
    monkeypatch.setattr(bars, "_FEWEST", 1)
    at_once = contents(read_printed_file(path))
    monkeypatch.setattr(bars, "_FEWEST", 10**9)
    assert at_once == contents(read_printed_file(path))


def test_most_bars_of_a_long_log_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.log"
    draws = [
        f"[1,{n % 2}]<stdout>: {n:3d}%|###  | {n}/100 [00:07<01:00, {n}.5s/it]\n"
        for n in range(1, 101)
    ]
    path.write_text("".join(draws))
    taken: list[PrintedLine] = []
    monkeypatch.setattr(PrintedRates, "take", lambda self, line: taken.append(line))
    expected = [(n, n % 2, n, 1 / (n + 0.5), (2 * n + 1) * 500_000_000) for n in range(1, 101)]
    assert rates(path) == expected[1:]
    assert len(taken) == 1


def test_the_rank_of_a_draw_is_that_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    draws = [f" {n:2d}%|#    | {n}/99 [00:07<01:00, 2.50it/s]" for n in range(1, 21)]
    path.write_text("".join(f"[1,{rank}]<stdout>:" + "\r".join(draws) + "\n" for rank in (5, 7)))
    assert rates(path) == [
        (line, rank, n, 2.5, None) for line, rank in ((1, 5), (2, 7)) for n in range(1, 21)
    ]


def test_a_bar_that_ends_behind_its_rate_is_read_with_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    draws = [f"{n:3d}%|{'#' * 40}| {n}/100 [00:07<01:00, 2.50it/s\n, a=1]\n" for n in (1, 2, 3)]
    path.write_text("".join(draws))
    assert rates(path) == [(2 * n, None, n, 2.5, None) for n in (1, 2, 3)]
