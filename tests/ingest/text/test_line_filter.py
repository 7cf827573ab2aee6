import re
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hvdprof.ingest.logs.part_reader import PartReader
from hvdprof.ingest.logs.printed_file import PARTS, read_printed_file
from hvdprof.ingest.text.line_filter import (
    any_of,
    anywhere,
    literal_of,
    matching,
    matching_texts,
)
from hvdprof.ingest.text.printed_lines import printed_lines
from hvdprof.model.notes import texts
from tests.builders.places import CORPUS, needs_corpus


def test_the_lines_that_a_pattern_finds() -> None:
    data = b"one\ntwo\nthree one\n\xff one"
    bounds = np.array([0, 4, 8, 18, len(data)])
    assert matching(data, bounds, "one").tolist() == [0, 2, 3]
    assert matching(data, bounds, "^one").tolist() == [0]
    assert matching(data, bounds, "one", [1, 2]).tolist() == [2]
    assert matching_texts(["one", "größe", "two one"], "one").tolist() == [0, 2]
    assert matching_texts(["one", "größe", "two one"], "one", [1, 2]).tolist() == [2]


def test_patterns_of_readers_that_want_every_line_are_left_out() -> None:
    assert matching_texts(["one", "two", "three"], any_of(("one", "", "th|tx"))).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        ("img/sec per", "img/sec per"),
        (r"Data \(t\): ", "Data (t): "),
        (r"Epoch: \[\d+\] +\[", "Epoch: ["),
        (r"[0-9] ?GPUs?(?: x)?: *more text", "GPU"),
        (r"\biter: \d+ ", "iter: "),
        (r"ab+c{2}d", "ab"),
        (r"(?:one|two) and", ""),
    ],
)
def test_the_literal_of_a_pattern_stands_in_all_that_it_finds(pattern: str, literal: str) -> None:
    assert literal_of(pattern) == literal


@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"^\s*raise ", "3: raise Error"),
        (r"^Model: +(?P<model>\S+)\s*$", "[1,0]<stdout>:Model: vgg16"),
        (r"(?:^signal \d|RANK)\b", "node signal 9"),
        (r"[^a]\^", "b^"),
        (r"cost \$5", "a cost $5"),
    ],
)
def test_a_pattern_of_plain_lines_finds_them_behind_a_prefix(pattern: str, line: str) -> None:
    assert matching_texts([line, "other"], anywhere("never", pattern)).tolist() == [0]


def feed(reader: PartReader, path: Path) -> None:
    for line in printed_lines(path, lambda: reader.wanted):
        reader.take(line)


@pytest.mark.slow
@needs_corpus
@pytest.mark.parametrize(
    "path", [*CORPUS.glob("*_logs/*"), *CORPUS.glob("nccl_tests/*")], ids=lambda path: path.name
)
def test_what_is_left_out_changes_nothing(path: Path) -> None:
    readers = [part("x") for part in PARTS]
    for line in printed_lines(path):
        for reader in readers:
            reader.take(line)
    chosen = [part("x") for part in PARTS]
    for reader in chosen:
        feed(reader, path)
    for every, some in zip(readers, chosen, strict=True):
        assert every.kinds() == some.kinds()
        some_tables = some.tables()
        for name, frame in every.tables().items():
            pd.testing.assert_frame_equal(frame, some_tables[name])


def test_every_reader_says_which_lines_it_wants() -> None:
    readers = [part("x") for part in PARTS]
    for reader in readers:
        for line in printed_lines(Path(__file__)):
            reader.take(line)
    assert all(reader.wanted for reader in readers)


@pytest.mark.heavy
def test_ordinary_output_costs_little(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    line = "2026-11-20 21:56:09,123 INFO trainer.py:231 Epoch 3/90 step=7 loss=0.1234 acc=45.6\n"
    path.write_text(line * (10_000_000 // len(line)))
    start = time.process_time()
    file = read_printed_file(path)
    seconds = time.process_time() - start
    assert file.num_lines == 10_000_000 // len(line)
    # 0.1 s on an idle machine; 5 s when every line went through every reader.
    assert seconds < 1


@pytest.mark.slow
@pytest.mark.parametrize("unit", [b"x", b"loss 0.1, ", b"a.b", b"Error: ", b"12:3 ", b"\0", b"# "])
def test_a_line_without_end_costs_little(tmp_path: Path, unit: bytes) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(unit * (5_000_000 // len(unit)))
    start = time.process_time()
    file = read_printed_file(path)
    seconds = time.process_time() - start
    assert file.num_lines == 1
    assert seconds < 1.5


@pytest.mark.slow
@pytest.mark.parametrize("text", [b"step 7, ", b"work: 7, "])
def test_the_beginning_of_an_endless_line_is_read_and_that_is_said(
    tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"RuntimeError: boom\n" + text * 3_000_000 + b"\nRuntimeError: end\n")
    start = time.process_time()
    file = read_printed_file(path)
    seconds = time.process_time() - start
    assert list(texts(file.notes)) == ["line 2 is longer than 4 MiB; only its beginning is read"]
    assert dict(file.tables)["incidents"]["line"].tolist() == [1, 3]
    assert seconds < 3


@pytest.mark.heavy
def test_a_progress_bar_is_no_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_bytes(b"step 7\r" * 1_000_000 + b"\rRuntimeError: end\n")
    file = read_printed_file(path)
    assert dict(file.tables)["incidents"]["line"].tolist() == [1]
    assert file.notes == []


def test_lines_that_no_reader_wants_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "job.out"
    path.write_text("a\n" * 5 + "[1,0]<stdout>:RuntimeError: boom\n" + "b\n" * 7)
    file = read_printed_file(path)
    ((_, incidents),) = file.tables
    assert (file.num_lines, incidents["line"].tolist(), incidents["rank"].tolist()) == (
        13,
        [6],
        [0],
    )


def test_patterns_are_those_of_re2() -> None:
    for part in PARTS:
        assert not re.search(r"\(\?[=!<]", part("x").wanted)
