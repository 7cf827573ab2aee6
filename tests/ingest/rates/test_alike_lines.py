import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hvdprof.ingest.logs.printed_file import PARTS, PrintedFile, read_printed_file
from hvdprof.ingest.logs.printed_rates import PrintedRates
from hvdprof.ingest.rates import alike_lines
from hvdprof.ingest.rates.alike_lines import of_any_digits
from hvdprof.ingest.text.line_filter import matching_texts
from hvdprof.ingest.text.log_lines import PrintedLine
from tests.builders.examples import examples
from tests.ingest.rates.test_rate_formats import SAMPLES

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


def one_by_one_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    monkeypatch.setattr(alike_lines, "_FEWEST", 1)
    at_once = contents(read_printed_file(path))
    monkeypatch.setattr(alike_lines, "_FEWEST", 10**9)
    return at_once, contents(read_printed_file(path))


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
    at_once, one_by_one = one_by_one_too(path, monkeypatch)
    assert at_once == one_by_one


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("cut", [0, 1, 7])
def test_lines_of_every_format_give_what_they_give_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, cut: int
) -> None:
    draw = random.Random(f"{name} {cut}")
    texts = SAMPLES[name][0].splitlines()

    def number(found: re.Match[str]) -> str:
        digits = "0" if draw.random() < 0.02 else "0123456789"
        width = len(found[0]) if draw.random() < 0.8 else draw.choice([1, 2, 3, 17])
        return "".join(draw.choice(digits) for _ in range(width))

    lines = []
    for _ in range(120):
        text = draw.choice(texts)
        # Some lines contradict themselves, some do not.
        changed = draw.choice([r"(?<=\.)[0-9](?![0-9])", "[0-9]+"])
        prefix = draw.choice(["", "[1,{}]<stdout>:", "<14>{} 2026-11-20T21:56:09Z h a 1 - - "])
        tag = prefix.format(draw.randint(0, 12)) if cut else prefix.format(1)
        end = "\r" if draw.random() < 0.02 else "\n"
        lines.append(tag + re.sub(changed, number, text) + end)
    path = tmp_path / "job.log"
    path.write_bytes("".join(lines).encode()[: -cut or None])
    at_once, one_by_one = one_by_one_too(path, monkeypatch)
    assert at_once == one_by_one


@pytest.mark.parametrize(
    ("text", "spread"),
    [
        ("{n}\timages/sec: {rate:.1f} +/- 0.3 (jitter = 3.1)\t7.1", 0.3),
        ("{n}\timages/sec: {rate:.1f} +/- 1.25 (jitter = 3.1)\t7.1", 1.25),
    ],
)
def test_most_rates_of_a_long_log_are_read_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, spread: float
) -> None:
    path = tmp_path / "job.log"
    rows = [(n, n % 12, 10 * n, 1000 + n / 8) for n in range(1, 301)]
    path.write_text(
        "".join(f"[1,{rank}]<stdout>:{text.format(n=n, rate=rate)}\n" for _, rank, n, rate in rows)
    )
    taken: list[int] = []
    take = PrintedRates.take

    def counted(self: PrintedRates, line: PrintedLine) -> None:
        taken.append(line.number)
        take(self, line)

    monkeypatch.setattr(PrintedRates, "take", counted)
    [frame] = [frame for name, frame in read_printed_file(path).tables if name == "printed_rates"]
    columns = frame[["line", "rank", "iteration", "rate", "mean_of", "spread"]].astype(object)
    assert list(columns.itertuples(index=False, name=None)) == [
        (line, rank, n, float(f"{rate:.1f}"), n, spread) for line, rank, n, rate in rows
    ]
    assert len(taken) < 5


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


def test_patterns_of_any_digits_are_those_of_lines_with_other_digits() -> None:
    assert of_any_digits(r"\d{1,9}it/s [0-9]+[\d,]* [a-z_]") == r"\d{1,9}it/s [0-9]+[\d,]* [a-z_]"
    assert of_any_digits(r"\b137\b|\x1b\[f[45]") == r"\b[0-9][0-9][0-9]\b|\x1b\[f(?s:.)"
    assert of_any_digits(r"[^1-9]|[0-9A-F2]{1,2}") == r"(?s:.)|(?s:.){1,2}"
    own = PrintedRates("job.log").wanted
    assert of_any_digits(own) == own


def test_what_a_pattern_finds_is_found_by_its_form() -> None:
    numbers = random.Random(3)
    words = [
        *(
            "exited with exitcode : -9",
            "137 ",
            "oom-kill ",
            "Thread 0x7f (idle",
            "#0 0x12",
            "float16 ",
        ),
        *(
            "8 f8e4m3 ",
            "fp8_e5m2 ",
            "p2p_perf",
            "## 4",
            "np\t8",
            "rank 7 died from",
            "Rank 3 -- GPU",
        ),
        *(
            "world_size: 16",
            "2026-11-20 21:56:09.123456: I a.cc:77] ",
            "1250 / 3000 ",
            "\u2588 3it/s",
        ),
    ]
    lines = ["".join(numbers.choices(words, k=numbers.randint(1, 4))) for _ in range(3000)]
    forms = [re.sub("[0-9]", "0", line) for line in lines]
    patterns = {reader.wanted for part in PARTS if (reader := part("job.log")).wanted}
    found = {pattern: matching_texts(lines, pattern) for pattern in patterns}
    for pattern, places in found.items():
        by_form = matching_texts(forms, of_any_digits(pattern))
        assert np.isin(places, by_form).all()
        if of_any_digits(pattern) == pattern:
            assert places.tolist() == by_form.tolist()
    assert sum(map(len, found.values())) > 3000


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
