import math

import pytest

from hvdprof import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.percent(0.6123), "61.2 %"),
        (units.percent(math.nan), "-"),
        (units.percent_interval(0.612, 0.604, 0.620), "61.2 ± 0.8 %"),
        (units.percent_interval(0.612, 0.5, 0.63), "61.2 % (50.0 to 63.0)"),
        (units.percent_band(0.612, 0.5, 0.63), "61.2 % (90 % band 50.0 to 63.0)"),
        (units.percent_band(0.612, 0.4, 0.7), "61 % (90 % band 40 to 70)"),
        (units.percent_band(0.612, math.nan, 0.7), "61 % (90 % band 70 or less)"),
        (units.percent_band(0.612, math.nan, math.nan), "61.2 %"),
        (units.percent_interval(0.612, math.nan, math.nan), "61.2 %"),
        (units.points(-0.021), "-2.1 points"),
        (units.counted(1, "launch"), "1 launch"),
        (units.counted(7, "launch"), "7 launches"),
        (units.counted(2, "epoch"), "2 epochs"),
        (units.counted(2, "GPU"), "2 GPUs"),
        (units.points(-0.0001), "+0.0 points"),
        (units.points(0.173, 0.05, 0.295), "+17 points"),
        (units.points(0.173, 0.16, 0.19), "+17.3 points"),
        (units.milliseconds(12_345_678), "12.3 ms"),
        (units.milliseconds(1_234_567_890), "1,235 ms"),
        (units.percent_interval(0.691, 0.511, 0.871), "69 ± 18 %"),
        (units.percent_interval(0.658, 0.531, 0.785), "66 ± 13 %"),
        (units.percent_interval(0.9, 0.802, 0.998), "90.0 ± 9.8 %"),
        (units.percent_interval(0.977, 0.739, 1.291), "98 % (74 to 129)"),
        (units.milliseconds(1234), "1.23 µs"),
        (units.milliseconds(26_700), "26.7 µs"),
        (units.milliseconds(-312_000), "-312 µs"),
        (units.milliseconds(999_400), "999 µs"),
        (units.milliseconds(999_600), "1.00 ms"),
        (units.milliseconds(999.7), "1.00 µs"),
        (units.milliseconds(26), "26 ns"),
        (units.milliseconds(0.4), "0 ms"),
        (units.duration(45), "45 s"),
        (units.duration(90), "1 min 30 s"),
        (units.duration(300.2), "5 min"),
        (units.duration(4 * 3600), "4 h"),
        (units.duration(0), "0 s"),
        (units.duration(math.nan), "-"),
        (units.percent_limit(0.03), "3 %"),
        (units.percent_limit(0.025), "2.5 %"),
        (units.two_digit_percent(0.0423), "4.2 %"),
        (units.two_digit_percent(0.127), "13 %"),
        (units.seconds(4.24), "4.24 s"),
        (units.seconds(4.24, whole=True), "4 s"),
        (units.seconds(192), "3 min 12 s"),
        (units.rate(1234.5), "1,234"),
        (units.rate_interval(1234.5, 1200, 1280), "1,234 ± 40"),
        (units.rate_interval(9472, 2582, 34751), "9,500 (2,600 to 34,800)"),
        (units.rate_interval(9083, 9083 - 1462, 9083 + 1462), "9,100 ± 1,500"),
        (units.rate_interval(24.1, 23.6, 24.6), "24.1 ± 0.5"),
        (units.rate_interval(264.2, 263.35, 265.05), "264 ± 1"),
        (units.rate_interval(100, math.nan, math.nan), "100"),
        (units.byte_size(44_700_000), "44.7 MB"),
        (units.byte_size(999), "999 B"),
        (units.byte_size(0), "0 B"),
        (units.count(21840), "21,840"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert text == expected


def test_three_significant_digits_do_not_invent_zeros_before_the_point() -> None:
    assert units.rate(1_234_567) == "1,234,567"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (12_300_000, "ns", "12.3 ms"),
        (44_700_000, "bytes", "44.7 MB"),
        (0.612, "ratio", "61.2 %"),
        (4.24, "s", "4.24 s"),
        (12.34, "GB/s", "12.3 GB/s"),
        (602_730, "ns/MB", "603 µs/MB"),
        (21840, "", "21,840"),
        (1.5, "", "1.50"),
        (float("nan"), "ns", "-"),
    ],
)
def test_a_number_is_printed_in_the_unit_of_its_column(value: float, unit: str, text: str) -> None:
    assert units.of_unit(value, unit) == text


def test_an_interval_with_one_end_says_so() -> None:
    nan = float("nan")
    assert units.rate_interval(24.1, 15.2, nan) == "24.1 (15.2 or more)"
    assert units.rate_interval(24.1, nan, 30.0) == "24.1 (30.0 or less)"
    assert units.interval_of_unit(24.1, 15.2, nan, "MB/s") == "24.1 MB/s (15.2 or more)"
    assert units.interval_of_unit(2e6, nan, 3e6, "ns") == "2.00 ms (3.00 or less)"
    assert units.interval_of_unit(24.1, nan, nan, "MB/s") == "24.1 MB/s"
    assert units.interval_of_unit(nan, 15.2, nan, "MB/s") == "-"
    assert units.rate_interval(nan, 15.2, 16.0) == "-"


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((0.0231, 0.018, 0.029), "2.3 % (1.8 to 2.9)"),
        ((0.0023, -0.001, 0.0046), "0.23 % (0.00 to 0.46)"),
        ((0.0231, math.nan, math.nan), "2.31 %"),
    ],
)
def test_a_small_share_with_its_interval(values, text):
    assert units.fraction_interval(*values) == text


def test_a_value_whose_interval_says_nothing_is_not_known() -> None:
    assert units.percent_interval(0.576, 0.0, 8.66e15) == units.UNKNOWN
    assert units.percent_interval(0.54, 0.01, 30.53) == "not known (too noisy)"
    assert units.rate_interval(120.0, 0.0, 1e18) == "120 (CI unbounded: too noisy)"
    assert units.percent_band(0.96, math.nan, 4.82) == "not known (90 % band 482 or less)"
    assert units.percent_band(0.9, math.nan, 1.05) == "90 % (90 % band 105 or less)"
    wide = units.interval_of_unit(0.1, -9e9, 9e9, "ratio")
    assert wide == "not known (too noisy)"
    assert units.percent_interval(0.001, -0.2, 0.6) == "0 % (-20 to 60)"


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (9.99e9, "9,990 ms"),
        (12.34e9, "12.3 s"),
        (-12.34e9, "-12.3 s"),
        (10_092_502e6, "168 min 13 s"),
    ],
)
def test_long_times_scale_their_unit(duration_ns: float, text: str) -> None:
    assert units.milliseconds(duration_ns) == text


def test_the_ends_of_a_long_time_keep_their_units() -> None:
    assert units.interval_of_unit(1.4e6, 982e3, 1.402e6, "ns") == "1.40 ms (982 µs to 1.40 ms)"
    assert units.interval_of_unit(600e9, 590e9, 615e9, "ns") == (
        "10 min 00 s (9 min 50 s to 10 min 15 s)"
    )


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "text"),
    [
        (12, 70, "41 ms"),
        (41.0, 41.6, "41.3 ms"),
        (41.29, 41.31, "41.3 ms"),
        (-600, 680, "41 ms"),
        (math.nan, math.nan, "41.3 ms"),
        (41.3, math.inf, "41.3 ms"),
    ],
)
def test_a_duration_has_the_digits_of_its_interval(low_ms, high_ms, text):
    assert units.milliseconds_within(41.3e6, low_ms * 1e6, high_ms * 1e6) == text


def test_a_share_has_the_digits_of_its_interval():
    assert units.percent_within(0.566, 0.2, 0.9) == "57 %"
    assert units.percent_within(0.566, 0.55, 0.58) == "56.6 %"
    assert units.percent_within(0.566, math.nan, math.nan) == "56.6 %"


def test_a_share_has_no_more_digits_than_its_interval():
    assert units.interval_of_unit(0.566, 0.351, 0.780, "ratio") == "57 % (35 to 78)"
    assert units.interval_of_unit(0.566, 0.561, 0.571, "ratio") == "56.6 % (56.1 to 57.1)"
    assert units.interval_of_unit(0.3, 0.15, float("nan"), "ratio") == "30.0 % (15.0 or more)"


def test_a_printed_time_is_a_date_and_a_time():
    assert units.moment(1_555_163_792e9) == "2019-04-13 13:56:32"
    assert units.moment(50_192e9) == "13:56:32"
    assert units.moment(math.nan) == "-"
