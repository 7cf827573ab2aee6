"""Options to sinks, and what is said where one cannot be made."""

import socket
import subprocess
import sys
import time

import pytest

from hvdprof.errors import MissingExtraError, UsageError
from hvdprof.live.sinks.choose import DESTINATIONS, SinkOptions, guarded, sinks_of
from tests.builders.watched_job import event, snapshot

LIBRARIES = ("opentelemetry", "wandb", "mlflow", "tensorboard")


def test_no_option_gives_no_sink(tmp_path):
    assert sinks_of(SinkOptions(tmp_path)) == []


def test_each_option_gives_its_sink_which_says_where_it_writes(tmp_path):
    prom = tmp_path / "node.prom"
    sinks = guarded(
        sinks_of(SinkOptions(tmp_path, prom=prom, metrics_port=0, on_event="cat -")),
        lambda warning: pytest.fail(warning),
    )
    names = [sink.name.partition(" ")[0] for sink in sinks]
    assert names == ["--prom", "--metrics-port", "--on-event"]
    assert sinks[0].where == str(prom)
    assert sinks[1].where.startswith("http://127.0.0.1:")
    for sink in sinks:
        sink.show(snapshot())
        sink.close()
    assert prom.exists()


def test_an_unknown_destination_names_the_known_ones(tmp_path):
    with pytest.raises(UsageError, match="--to comet is not known") as refused:
        sinks_of(SinkOptions(tmp_path, to=["comet"]))
    assert refused.value.hint == "Known are: otel, wandb, mlflow, tensorboard, kubeflow."


@pytest.mark.parametrize("name", [name for name in DESTINATIONS if name != "kubeflow"])
def test_a_missing_library_names_its_extra(tmp_path, monkeypatch, name: str):
    for library in LIBRARIES:
        for module in [module for module in sys.modules if module.split(".")[0] == library]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=f"--to {name} needs packages") as missing:
        sinks_of(SinkOptions(tmp_path, to=[name]))
    assert missing.value.hint == f"pip install 'hvdprof[{name}]'"


def test_what_was_made_before_a_refused_one_is_closed(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match="no-such-program"):
        sinks_of(SinkOptions(tmp_path, metrics_port=port, on_event="no-such-program"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_command_may_take_longer_than_other_sinks(tmp_path):
    warnings = []
    ended = tmp_path / "ended"
    options = SinkOptions(tmp_path, on_event=f"sh -c 'sleep 0.8; touch {ended}'")
    [guard] = guarded(sinks_of(options), warnings.append)
    guard.report(event())
    deadline = time.monotonic() + 20
    while not ended.exists() and time.monotonic() < deadline:
        guard.show(snapshot())
        time.sleep(0.1)
    assert ended.exists()
    assert (warnings, guard.num_failures) == ([], 0)
    guard.close()


def test_the_options_alone_import_no_server_and_no_library():
    code = "import sys, hvdprof.live.sinks.choose; print(sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.strip("[]\n").replace("'", "").split(", ")}
    assert "hvdprof" in loaded
    assert not loaded & {"ssl", "http", "urllib3", "numpy", "rich", *LIBRARIES}
