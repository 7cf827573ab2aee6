import gzip
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.text.printed_lines import UntouchedLines
from hvdprof.model.notes import texts
from tests.builders.examples import examples
from tests.ingest.logs.deepspeed.test_deepspeed_comms import VERBOSE
from tests.ingest.logs.test_autotune_log import HEADER
from tests.ingest.logs.test_printed_rates import SYNTHETIC, TF_CNN
from tests.ingest.logs.test_stall_warnings import FORMS
from tests.ingest.test_load_files import MIXED

pytestmark = pytest.mark.slow

ALL = "\n".join([*FORMS.values(), TF_CNN, SYNTHETIC, MIXED, HEADER, "0,0,0, 0,5,4,8.18"])
ALL += "\nProcess name: 1\nExit code: 137\nnp,samples/s\n1,100\n2,190\n"
LARGE = ["9" * 5000, "1e999", "-1", "nan", "9" * 20, "\0", "[", "]", "99999999999:", "e+99", "|"]


@settings(deadline=None, max_examples=examples(200))
@given(data=st.data())
def test_no_text_is_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("text") / "a.txt"
    chooser = random.Random(data.draw(st.integers(0, 10**9)))
    words = ALL.split(" ")
    for _ in range(chooser.randint(1, 12)):
        place = chooser.randrange(len(words))
        words[place] = chooser.choice([*LARGE, words[chooser.randrange(len(words))]])
    text = " ".join(words)
    start = chooser.randrange(len(text))
    path.write_text(text[start:] + text[:start])
    file = read_printed_file(path)
    assert all(len(frame) for _, frame in file.tables)


def test_every_number_may_be_absurd(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for large in LARGE:
        for digit in "0123456789":
            path.write_text(ALL.replace(digit, large))
            assert read_printed_file(path).num_lines > 0


@pytest.mark.parametrize("size", ["9" * 30, "9" * 400])
def test_a_row_with_a_number_beyond_64_bits_is_left_out_and_noted(
    tmp_path: Path, size: str
) -> None:
    lines = VERBOSE.splitlines(keepends=True)
    path = tmp_path / "a.txt"
    path.write_text(VERBOSE + re.sub(r"(?<=time \(ms\): )[\d.]+", size, lines[0]))
    file = read_printed_file(path)
    assert sum(len(frame) for _, frame in file.tables) == len(lines)
    assert list(texts(file.notes)) == ["1 row omitted: a number is too large or too small"]


def test_a_torn_compressed_end_keeps_what_stands_before(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    content = gzip.compress(b"".join(b"ValueError: %d\n" % number for number in range(20_000)))
    path.write_bytes(content[: len(content) // 2])
    file = read_printed_file(path)
    assert list(texts(file.notes)) == ["the gzip data ends early"]
    assert 1000 < file.num_lines < 20_000


def test_a_block_of_rates_is_searched_once_not_at_each_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = "images/sec: 1000.5 +/- 0.3 (jitter = 3.1)"
    lines = [f"{step}\t{rate}\t7.1" for step in range(2000)]
    log = tmp_path / "out.log"
    log.write_text("\n".join(lines) + "\n")
    searched = []
    places = UntouchedLines.places

    def counted(part: UntouchedLines, pattern: str, among: list[int] | None = None):
        searched.append(pattern)
        return places(part, pattern, among)

    monkeypatch.setattr(UntouchedLines, "places", counted)
    (rates,) = [frame for name, frame in read_printed_file(log).tables if name == "printed_rates"]
    assert len(rates) == 2000
    assert len(searched) < 50
