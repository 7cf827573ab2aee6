import pytest

from hvdprof.dashboards.pages import communication
from tests.builders.net_recording import of_hosts
from tests.builders.run_directory import write_run
from tests.builders.served_dashboard import (
    check_in_browser,
    empty_run,
    measured_run,
    page_text,
    standalone_timeline,
)
from tests.builders.two_host_run import two_host_run

NOTHING = "No collectives"


@pytest.mark.slow
def test_a_traced_run_shows_size_fusion_and_overlap(tmp_path):
    text = page_text(communication, measured_run(tmp_path / "run"))
    for heading in (
        "Size against time",
        "Bus bandwidth",
        "Messages per step",
        "Overlap with computation",
    ):
        assert f'"{heading}"' in text
    assert "overlapped by computation" in text
    assert "in this launch, transfer " in text
    assert "of the communication time." in text
    assert text.index("in this launch, transfer ") < text.index('"Size against time"')
    assert "HOROVOD_TIMELINE_MARK_CYCLES=1" in text


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (0.1, "latency 200 \N{MICRO SIGN}s, bandwidth 4.00 GB/s."),
        (9.0, "latency and bandwidth not known ("),
    ],
)
def test_a_fit_with_intervals_wider_than_its_values_gives_no_number(tmp_path, spread, said):
    values = {"alpha": 200e3, "bandwidth": 4.0}
    units = {"alpha": "ns", "bandwidth": "gb_per_s"}
    row = {"collective": "ALLREDUCE", "np": 2, "reason": "", "num_executions": 9}
    for name, value in values.items():
        ends = {"": value, "low_": value * (1 - spread / 2), "high_": value * (1 + spread / 2)}
        row |= {f"{name}_{end}{units[name]}": number for end, number in ends.items()}
    assert f"ALLREDUCE on 2 ranks: {said}" in communication.fitted_text(row)


@pytest.mark.heavy
def test_a_standalone_timeline_has_no_overlap_and_says_why(tmp_path):
    text = page_text(communication, standalone_timeline(tmp_path))
    assert "Size against time" in text
    assert "Overlap requires recorder files and a timeline" in text
    # A sentence is no figure that one could save.
    assert "Save Size against time as PNG" in text
    assert "Save Overlap with computation as PNG" not in text


@pytest.mark.heavy
def test_without_data_it_says_how_to_get_them(tmp_path):
    text = page_text(communication, empty_run(tmp_path / "run"))
    assert NOTHING in text
    assert "HOROVOD_TIMELINE=timeline.json" in text


@pytest.mark.slow
def test_the_network_of_several_hosts_is_shown_with_what_the_job_makes_of_it(tmp_path):
    text = page_text(communication, two_host_run(tmp_path / "run"))
    for heading in ("Bandwidth between the hosts", "Links", "Use of the network by the job"):
        assert f'"{heading}"' in text
    # One pair says nothing of which of its two hosts is slow.
    assert "Each host's link" not in text


@pytest.mark.heavy
def test_a_network_without_a_job_is_shown_too(tmp_path):
    write_run(tmp_path / "run", [])
    of_hosts([1e8, 1e8, 2e7]).write(tmp_path / "run")
    text = page_text(communication, tmp_path / "run")
    assert "Bandwidth between the hosts" in text
    assert "Each host's link" in text
    assert NOTHING in text


@pytest.mark.slow
def test_several_hosts_without_a_network_measurement_get_the_command(tmp_path):
    run = two_host_run(tmp_path / "run")
    (run / "net.jsonl").unlink()
    text = page_text(communication, run)
    assert "The network between the 2 hosts of this run was not measured." in text
    assert "hvdprof net --hosts h1,h2" in text


@pytest.mark.browser
def test_in_a_browser(tmp_path):
    expected = {
        "measured": "Size against time",
        "empty": NOTHING,
        "timeline": "Size against time",
    }
    check_in_browser(communication, tmp_path, expected)
