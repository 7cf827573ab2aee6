import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.ingest.text.log_lines import LogLines, PrintedLine
from hvdprof.ingest.text.prefix_forms import LINES
from hvdprof.rundir.failures.log_prefixes import without_colours
from tests.builders.log_prefixes import IN_TWO, PREFIXES, Prefix

CONTENT = ("training begins", "step 1", "loss 0.3", "training ends")


def read(text: str) -> list[PrintedLine]:
    raw = without_colours(text).splitlines()
    log = LogLines.of_file(raw)
    lines = [log.take(number, line) for number, line in enumerate(raw, 1)]
    return [line for line in lines if line is not None] + log.rest()


def texts(text: str) -> list[str]:
    return [line.text for line in read(text)]


@pytest.mark.parametrize("prefix", PREFIXES, ids=repr)
def test_every_form_is_taken_off(prefix: Prefix) -> None:
    lines = read(prefix.of("\n".join(CONTENT)))
    assert [line.text for line in lines] == list(CONTENT)
    assert {line.rank for line in lines} == {prefix.rank}
    assert {line.host for line in lines} == {prefix.host}


@pytest.mark.parametrize(
    "content",
    [
        ["np samples/s", "1 872", "2 1700", "3 2500"],
        ["1: 872", "2: 1700", "3: 2500"],
        ["1:872", "2:1700", "3:2500"],
        ["1: [allreduce.a]", "3: [allreduce.a, allreduce.b]"],
        ["1: gather the data", "2: train", "3: stop"],
        ["Missing ranks:", "0: [a.0, a.1]", "1: [a.2]"],
        ["0: [allreduce.a, allreduce.b,", "allreduce.c]"],
        ["| np | samples/s |", "| --- | --- |", "| 1 | 362.4 |", "| 2 | 700.1 |"],
        ["GPUs  | samples/s", "----- | ---------", "1     | 362.4", "2     | 700.1"],
        [
            "model  | np | samples/s",
            "resnet | 1  | 362.4",
            "resnet | 2  | 700.1",
            "vgg    | 1  | 9",
        ],
        [
            "   8    2    float    sum   -1   35.20  0.00  0.00  0",
            "  16    4    float    sum   -1   1",
        ],
        ["   1\t872", "   2\t1700", "   3\t2500"],
        ["[0] loss 3", "[1] loss 2", "[2] loss 1"],
        ["Step 1: loss 3", "Step 2: loss 2", "Step 2: loss 1"],
        ["total images/sec: 540.66", "total images/sec: 541.01", "total images/sec: 542.00"],
        ["[1, 2, 3]", "[0.5]: weights", "(1, 2)", "(pid 3) text"],
        ["oak1:7100:7200 [0] NCCL INFO Using network IB"] * 3,
        ["2026-11-20,362.4", "2026-11-21,363.1", "2026-11-22,364.8"],
        ["> 90 % of memory is used", "step 1", "step 2", "step 3"],
        ['{"step": 1, "loss": 0.3}', '{"step": 2, "log": 7}', '{"log": "a", "b"'],
        ["job-7 ended", "all good", "and done"],
    ],
)
def test_content_that_looks_like_a_prefix_stays(content: list[str]) -> None:
    assert texts("\n".join(content)) == content


def test_numbers_of_stalled_ranks_stay_behind_the_tag_of_srun() -> None:
    text = "0: warning\n0: Missing ranks:\n0: 1: [allreduce.a]\n0: training\n"
    assert texts(text) == ["warning", "Missing ranks:", "1: [allreduce.a]", "training"]


def test_the_part_of_a_file_that_srun_wrote_loses_its_numbers() -> None:
    lines = read("+ srun -l\nbegin\n0: a\n1: b\n0: c\n1: [allreduce.a]\n")
    assert [line.text for line in lines][2:] == ["a", "b", "c", "1: [allreduce.a]"]
    assert [line.rank for line in lines] == [None, None, 0, 1, 0, None]


@pytest.mark.parametrize(
    ("stamp", "time_ns"),
    [
        ("2026-11-20T21:56:09Z", 1_795_211_769_000_000_000),
        ("2026-11-20T21:56:09.1234567Z", 1_795_211_769_123_456_700),
        ("2026-11-20T22:56:09.5+01:00", 1_795_211_769_500_000_000),
        ("2026-11-20T16:26:09,25-0530", 1_795_211_769_250_000_000),
        ("2026-13-20T21:56:09Z", None),
    ],
)
def test_the_time_of_a_prefix(stamp: str, time_ns: int | None) -> None:
    (line,) = read(f"{stamp} text")
    assert (line.text, line.time_ns) == ("text", time_ns)


def test_a_line_without_a_stamp_has_no_time() -> None:
    assert PrintedLine(1, "text").time_ns is None


@pytest.mark.parametrize("content", [CONTENT, ["x" * 9000, "short"]])
def test_parts_are_joined_and_the_last_one_is_not_lost(content: tuple[str, ...]) -> None:
    text = IN_TWO.of("\n".join(content))
    assert texts(text) == list(content)
    cut = texts("\n".join(text.splitlines()[:-1]))
    assert cut == [*content[:-1], content[-1][: len(content[-1]) // 2]]


def test_docker_cuts_lines_after_16_kib() -> None:
    text = '{"log":"first "}\n{"log":"second\\n"}\n{"log":"\\u001b[31mred\\u001b[0m\\n"}\n'
    assert texts(text) == ["first second", "red"]


def test_the_innermost_rank_counts() -> None:
    (line,) = read("(head, rank=0, pid=7) [1,2]<stdout>:[rank5]: RuntimeError: x")
    assert (line.rank, line.text) == (5, "RuntimeError: x")


def test_inner_tags_go_on_request() -> None:
    (line,) = read("[1,2]<stdout>:a[1,3]<stdout>:b")
    assert line.text == "a[1,3]<stdout>:b"
    assert line.without_inner_tags() == PrintedLine(1, "ab", 2)
    (line,) = read("a[1,3]<stdout>:b")
    assert line.without_inner_tags() == PrintedLine(1, "ab", 3)


def test_every_form_states_its_source() -> None:
    assert all(form.source and form.name for form in LINES)


@given(st.lists(st.text(st.sampled_from("[(<{>|:0123 \tabAP]TZ-.,\x1b"), max_size=60), max_size=12))
def test_any_text_is_read(lines: list[str]) -> None:
    found = read("\n".join(lines))
    assert all(len(line.text) <= sum(map(len, lines)) for line in found)


@pytest.mark.heavy
@pytest.mark.parametrize("unit", ["(", "[1,", "a ", "2026-11-20 ", "<13>1 ", "x-1 ", "\x1b]", "1"])
def test_long_lines_cost_time_in_proportion(unit: str) -> None:
    line = (unit * 65_536)[:65_536]
    start = time.process_time()
    texts("\n".join([line] * 20))
    assert time.process_time() - start < 2
