import pytest

from hvdprof import api
from hvdprof.errors import UnreadableInputError, UsageError


def test_a_table_of_measured_sizes_alone_is_refused_with_larger_ones():
    with pytest.raises(
        UsageError, match="Nothing to predict at np=2, 4: np=4 is measured"
    ) as error:
        api.predict_throughput(["1:100 2:190 4:350"], "2,4")

    assert error.value.hint == "--np 8,16,32"


def test_one_size_alone_is_refused():
    with pytest.raises(UnreadableInputError, match="at least two rank counts"):
        api.predict_throughput(["np,samples/s", "2,10", "2,11"], 4)


def test_step_times_are_predicted_without_rates():
    found = api.predict_throughput(["np,step_time_ms", "1,100", "2,105", "4,112"], 8)

    assert found.rows["samples_per_s_p50"].isna().all()
    assert found.measured["samples_per_s"].isna().all()
    assert 0.7 < found.rows["efficiency_p50"].iloc[0] < 0.95
