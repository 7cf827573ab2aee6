import numpy as np
import pytest

from hvdprof.analyze.communication.network import net_links
from hvdprof.figures.host_links import net_bandwidths
from hvdprof.ingest.rundir.run_files import net_transfers
from hvdprof.model.tables.sample_tables import NET_LINKS
from tests.builders.net_recording import link, net_recording, of_hosts


def drawn(recording):
    return net_bandwidths(net_links(net_transfers(recording)[0]))


@pytest.mark.heavy
def test_a_pair_is_a_point_a_method_with_its_interval():
    figure = drawn(net_recording())
    assert [trace.name for trace in figure.data] == [
        "TCP, one way",
        "through Horovod, one way",
        "allreduce of all hosts",
    ]
    tcp, horovod, of_all = figure.data
    # Who asked whom is another one for each method; the pair is the same.
    assert list(tcp.y) == list(horovod.y) == ["h1 - h2"]
    assert list(of_all.y) == ["all 2 hosts"]
    assert tcp.offsetgroup != horovod.offsetgroup
    assert tcp.x[0] == pytest.approx(25, rel=1e-3)
    assert "25.0 MB/s (" in tcp.hovertext[0]
    assert "µs (" in tcp.hovertext[0]
    assert tcp.error_x.array[0] >= 0
    assert figure.layout.xaxis.title.text == "bandwidth, MB/s"


@pytest.mark.heavy
def test_bandwidths_that_are_alike_start_at_zero_and_others_are_on_a_log_axis():
    assert drawn(net_recording()).layout.xaxis.rangemode == "tozero"
    far = net_recording(
        records=[
            *link("tcp", alpha_ns=50_000, bytes_per_s=1e9, ends=(1, 0)),
            *link("broadcast", alpha_ns=50_000, bytes_per_s=1e7, ends=(1, 0)),
        ]
    )
    assert drawn(far).layout.xaxis.type == "log"


@pytest.mark.heavy
def test_many_hosts_are_a_square_that_is_alike_on_both_sides():
    recording = of_hosts([1e8] * 6 + [2e7])
    (square,) = drawn(recording).data
    assert square.z.shape == (7, 7)
    assert np.isnan(np.diag(square.z)).all()
    assert np.allclose(square.z, square.z.T, equal_nan=True)
    assert np.nanmax(square.z[6]) == pytest.approx(20, rel=1e-2)
    assert np.nanmax(square.z[5]) == pytest.approx(100, rel=1e-2)


@pytest.mark.heavy
def test_names_of_hosts_are_text():
    recording = net_recording(hosts=["<b>h1</b>", "h2"])
    figure = drawn(recording)
    assert "&lt;b&gt;h1" in figure.data[0].y[0]
    assert "&lt;b&gt;h1" in figure.data[0].hovertext[0]


def test_without_bandwidth_a_note_is_shown():
    few = link("tcp", alpha_ns=1000, bytes_per_s=1e9, ends=(1, 0))[:2]
    for figure in (drawn(net_recording(records=few)), net_bandwidths(NET_LINKS.empty())):
        assert not figure.data
        assert "No bandwidth" in figure.layout.annotations[0].text
