"""Users' tables, with what their threads say of them."""

import re

import pytest

from hvdprof import api
from hvdprof.errors import UnreadableInputError, UsageError

# Issues of Horovod, by number.
TABLES = {
    779: ("1:872 8:6679 16:12828 32:23870 64:47195 128:89783", [95.7, 91.9, 85.5, 84.5, 80.4]),
    871: ("8:6001.19 16:11090.10 32:18695.0", [92.4, 77.88]),
    416: ("1:202.78 4:650.92 16:2379.56", [80.25, 73.34]),
    1194: ("1:5 8:25 16:41 32:80", [62.5, 51.25, 50.0]),
}


def judged(text, **options):
    found = api.scaling_of_text(text.splitlines(), **options)
    return found.scaling, [f"{one.sentence} {one.caveat}" for one in found.verdicts]


@pytest.mark.parametrize("thread", TABLES)
def test_efficiencies_are_those_that_the_threads_print(thread):
    text, efficiencies = TABLES[thread]
    table, _ = judged(text)

    assert table["efficiency"].iloc[0] == 1
    found = (100 * table["efficiency"].iloc[1:]).tolist()
    assert found == pytest.approx(efficiencies, abs=0.1)


def test_steps_of_every_rank_become_the_rate_of_the_job():
    # Issue 889: each of four ranks makes 2.62 steps/s, a single rank 3.81.
    table, _ = judged("1 3.81\n4 2.62", unit="steps/s")

    assert table["efficiency"].iloc[-1] == pytest.approx(0.6877, abs=1e-4)


@pytest.mark.parametrize(
    ("text", "options", "efficiency"),
    [
        ("np,steps/s\n1,10\n4,8", {}, 0.8),
        ("np;step_time_ms\n1;100\n4;125", {}, 0.8),
        ("np,step time\n1,0.1\n4,0.05", {"strong": True}, 0.5),
        ("| gpus | speed-up |\n|---|---|\n| 1 | 1 |\n| 4 | 3.2x |", {}, 0.8),
        ("gpus,speedup\n4,3.2", {}, 0.8),
        ("4:3.2 2:1.9", {"unit": "speed-up"}, 0.8),
        ("1,0.1\n4,0.125", {"unit": "s/step"}, 0.8),
        ("1,100\n4,125", {"unit": "ms/step"}, 0.8),
        ("1,100\n4,50", {"unit": "ms/step", "strong": True}, 0.5),
        ("1,10\n4,20", {"unit": "steps/s", "strong": True}, 0.5),
        ("np,step time (ms)\n1,100\n4,125", {"unit": "ms/step"}, 0.8),
        ("| np | images/sec |\n|---|---|\n| 1 | 10 |\n| 2 | 16 |", {}, 0.8),
    ],
)
def test_units(text, options, efficiency):
    table, _ = judged(text, **options)

    assert table["efficiency"].iloc[-1] == pytest.approx(efficiency)


def test_rows_of_one_size_are_repeats_and_give_an_interval():
    table, (sentence,) = judged("1,100\n1,102\n1,98\n4,320\n4,324\n4,316")

    last = table.iloc[-1]
    assert last["num_repeats"] == 3
    assert last["efficiency_low"] < 0.8 < last["efficiency_high"]
    assert last["efficiency_high"] - last["efficiency_low"] < 0.1
    assert "no repeats" not in sentence


def test_repeats_give_speedup_fraction_and_extrapolation_an_interval():
    rows = "1,100\n1,101\n1,99\n2,166\n2,167\n2,168\n8,332\n8,333\n8,335"
    table, (sentence,) = judged(rows)

    last = table.iloc[-1]
    assert last["speedup_low"] == pytest.approx(8 * last["efficiency_low"])
    assert last["speedup_high"] == pytest.approx(8 * last["efficiency_high"])
    assert last["karp_flatt_low"] < last["karp_flatt"] < last["karp_flatt_high"]
    assert re.search(r"is 20\.0 % \(19\.\d to 20\.\d\), similar at every size", sentence)
    assert re.search(r"16 ranks reach 25\.0 ± 0\.\d %\.", sentence)
    assert re.search(r"speed-up 3\.33 ± 0\.0\d+ of 8", sentence)


def test_a_trend_within_the_intervals_is_none():
    noisy = "1,100\n1,110\n1,90\n2,190\n2,200\n2,180\n8,440\n8,540\n8,490"
    assert "the intervals overlap, so no trend is certain" in judged(noisy)[1][0]
    single = "1:100 2:180 8:518"
    assert "overhead that grows" not in judged(single)[1][0]
    assert "up from" in judged("1:100 2:190 8:400")[1][0]


def test_single_numbers_have_a_caveat():
    table, (sentence,) = judged("1:100 4:320")

    assert table["efficiency_low"].isna().all()
    assert "Uncertainty unknown (no repeats)." in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1:100 2:190 4:310 8:400", "overhead that grows"),
        ("1:5 8:25 16:41 32:80", "there from the first step up"),
        (
            "1:100 2:166.7 4:250 8:333.3",
            "with such a serial part 16 ranks reach 25.0 % (no interval: no repeats).",
        ),
        (
            "1:100 2:150 4:265 8:385 16:331",
            "33.33 %, 16.98 %, 15.40 %, 25.56 % at np=2, 4, 8, 16: not constant, so it predicts no "
            "larger size. The throughput peaks at np=8.",
        ),
        ("1:100 2:150 4:265 8:300", "at np=2, 4, 8: not constant, so it predicts no larger size."),
        ("1:5 8:25 16:41 32:38", "The throughput peaks at np=16."),
        ("1:100 2:220", "Above 100 % at np=2"),
        ("1:100 2:190 4:150", "np=4 is slower than np=2"),
        ("8:100 16:195 32:280", "largest drop is from np=16 to np=32"),
    ],
)
def test_what_the_loss_looks_like(text, words):
    assert words in judged(text)[1][0]


def test_several_series_are_judged_apart():
    _, sentences = judged("model,np,images/s\na,1,10\nb,1,10\na,2,19\nb,2,15")

    assert [sentence.split(":")[0] for sentence in sentences] == ["a", "b"]
    assert sentences[0].startswith("a: 95.0 %")


@pytest.mark.parametrize("text", ["", "hello", "1:5", "4:10 4:11", "1:0 2:0"])
def test_text_without_two_sizes_is_refused(text):
    with pytest.raises(UnreadableInputError):
        judged(text)


def test_a_unit_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="furlongs"):
        judged("1:1 2:2", unit="furlongs")


def test_only_rates_of_samples_are_given_as_such():
    table, _ = judged("np,speedup\n1,1\n2,1.8")

    assert table["samples_per_s"].isna().all()
    assert table["speedup"].tolist() == [1, pytest.approx(1.8)]


def test_lines_that_were_left_out_are_judged():
    text = "np,samples/s\n1,100\n2,0\n4,350\n8,none\n16,900\n"

    found = api.scaling_of_text(text.splitlines())

    assert found.scaling["np"].tolist() == [1, 4, 16]
    assert found.notes == (
        "Line 3 `2,0` was skipped: samples/s is not a number above 0.",
        "Line 5 `8,none` was skipped: samples/s is not a number above 0.",
    )
    apart = api.scaling_of_text([*text.splitlines(), "", "32,1700"])
    assert apart.notes[-1] == (
        "Line 8 `32,1700` was skipped: it stands outside the table, or holds no samples/s above 0."
    )
    assert api.scaling_of_text(["np,samples/s", "1,100", "2,190"]).notes == ()


def test_speed_ups_without_a_row_of_1_are_against_one_rank():
    found = api.scaling_of_text(["np,speedup", "8,7.66", "16,14.7"])

    assert found.scaling["np"].tolist() == [1, 8, 16]
    assert "against np=1" in found.verdicts[0].sentence
    assert "taken against one rank" in found.notes[0]


def test_what_may_be_chance_is_neither_a_serial_fraction_nor_more_ranks_that_do_less():
    noisy = "\n".join(["1 100", "1 400", "2 150", "2 350"])
    table, (sentence,) = judged(noisy)
    assert table["efficiency_low"].iloc[1] < 1 < table["efficiency_high"].iloc[1]
    assert "The 95 % CI includes 100 %: no certain loss." in sentence
    for words in ("serial fraction", "slower than", "Above 100 %"):
        assert words not in sentence


def test_what_is_beyond_chance_is_judged():
    _, (sentence,) = judged("\n".join(["1 100", "1 101", "2 90", "2 91"]))
    assert "serial fraction" in sentence
    assert "np=2 is slower than np=1" in sentence
