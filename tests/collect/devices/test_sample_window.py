"""Windows of samples."""

from hvdprof.collect.devices.sample_window import SampleWindow, Source, Values

S = 1_000_000_000


class Given(Source):
    scope = "rank"

    def __init__(self, *values: Values) -> None:
        self.values = list(values)

    def read(self) -> Values:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


def test_counts_become_growth_per_second_and_levels_stay() -> None:
    source = Given(
        {"cpu": 10.0, "rss": 1.0},
        {"cpu": 10.5, "rss": 400.0},
        {"cpu": 12.5, "rss": 100.0},
        {"cpu": 12.5, "rss": 101.0},
    )
    window = SampleWindow(source, 0)
    for second in (1, 2, 4):
        window.sample(second * S)
    line = window.line(4 * S)

    assert line is not None
    assert (line["scope"], line["start_ns"], line["end_ns"]) == ("rank", 0, 4 * S)
    rates, levels = (tuple(summary[1:]) for summary in line["measures"])
    # 0.5 in the first second, 2 in the next, 0 in the two after.
    assert rates == (3, 0.833333, 0.0, 0.5, 2.0)
    assert levels == (3, 200.333, 100.0, 101.0, 400.0)


def test_a_counter_that_begins_anew_is_no_negative_growth() -> None:
    window = SampleWindow(Given({"cpu": 10.0}, {"cpu": 1.0}), 0)
    window.sample(S)
    line = window.line(S)

    assert line is not None
    assert line["measures"] == [("cpu", 1, 0.0, 0.0, 0.0, 0.0)]


def test_what_grew_before_a_window_begins_is_left_out() -> None:
    window = SampleWindow(Given({"cpu": 1.0}, {"cpu": 2.0}, {"cpu": 9.0}, {"cpu": 9.5}), 0)
    window.sample(S)
    window.begin(8 * S)
    window.sample(9 * S)
    line = window.line(9 * S)

    assert line is not None
    assert line["start_ns"] == 8 * S
    assert line["measures"] == [("cpu", 1, 0.5, 0.5, 0.5, 0.5)]


def test_windows_stay_short_while_a_watcher_follows() -> None:
    window = SampleWindow(Given({"rss": 1.0}), 0)
    for second in range(1, 600):
        window.sample(second * S)
        window.line(second * S, 5 * S)
    window.sample(604 * S)
    assert window.line(604 * S, 5 * S) is not None


def test_windows_grow_to_half_a_minute() -> None:
    window = SampleWindow(Given({"rss": 1.0}), 0)
    lengths = []
    for second in range(1, 3600):
        window.sample(second * S)
        if (line := window.line(second * S)) is not None:
            lengths.append((line["end_ns"] - line["start_ns"]) // S)

    assert lengths[:5] == [1] * 5
    assert lengths == sorted(lengths)
    assert lengths[-1] == 30
    assert len(lengths) < 200


def test_what_is_left_is_written_at_the_end_and_nothing_twice() -> None:
    window = SampleWindow(Given({"rss": 1.0}), 0)
    window.sample(100 * S)
    assert window.line(100 * S) is not None
    window.sample(101 * S)

    assert window.line(101 * S) is None
    assert window.line(101 * S, is_last=True) is not None
    assert window.line(101 * S, is_last=True) is None


def test_a_moment_after_a_sample_there_is_none() -> None:
    window = SampleWindow(Given({"cpu": 1.0}, {"cpu": 2.0}), 0)
    window.sample(1000)

    assert window.line(1000, is_last=True) is None
