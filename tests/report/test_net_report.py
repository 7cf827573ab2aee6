import io
import json

from hvdprof.analyze.net_links import net_links
from hvdprof.ingest.net_file import net_transfers
from hvdprof.model.net_tables import NET_LINKS
from hvdprof.report.net_report import render_net, render_net_json
from tests.builders.net_recording import link, net_recording


def _links(**changes):
    return net_links(net_transfers(net_recording(**changes))[0])


def _text(links, notes=()):
    stream = io.StringIO()
    render_net(links, notes, stream)
    return stream.getvalue()


def test_every_link_is_a_row_with_its_interval():
    lines = _text(_links(), ["The network from h2 to h1 was not measured."]).splitlines()
    assert [word for word in lines[0].split() if word] == [
        *("over", "between", "latency,", "ms", "bandwidth,", "MB/s")
    ]
    (tcp,) = [line for line in lines if line.startswith("TCP")][:1]
    assert "h2 - h1" in tcp
    assert "0.0910 ± 0.003" in tcp
    assert tcp.endswith("25.0 ± 0")
    assert any("median of 1.02 kB" in line and "up to 4.19 MB" in line for line in lines)
    assert any(line.split()[:4] == ["allreduce", "all", "2", "hosts"] for line in lines)
    assert lines[-1] == "  ! The network from h2 to h1 was not measured."


def test_without_a_fit_the_reason_is_told():
    few = link("tcp", alpha_ns=1000, bytes_per_s=1e9, ends=(1, 0))[:2]
    assert "only 2 different payloads" in _text(_links(records=few))


def test_nothing_measured():
    assert _text(NET_LINKS.empty()) == "No measurement of a network here.\n"


def test_the_json_object_has_null_where_a_number_is_missing():
    stream = io.StringIO()
    few = link("tcp", alpha_ns=1000, bytes_per_s=1e9, ends=(1, 0))[:2]
    render_net_json(_links(records=few), ["a note"], stream)
    content = json.loads(stream.getvalue())
    assert content["schema_version"] == 1
    assert content["notes"] == ["a note"]
    (row,) = content["net_links"]
    assert row["bandwidth_gb_per_s"] is None
    assert row["latency_ns"] > 0
