import socket

import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.bench import Tools, planned_manifest, prepare
from tests.builders.bench_settings import FOUR_CORES, bench_settings
from tests.builders.survey import make_build


def test_a_horovod_without_torch_cannot_run_the_reference_models():
    build = make_build(torch=False, torch_version="", tensorflow_version="2.15.1")

    with pytest.raises(EnvironmentNotReadyError, match=r"for TensorFlow 2\.15\.1 alone") as caught:
        prepare(None, {}, Tools(build, None), controller="auto", device="auto")
    assert "hvdprof run" in caught.value.hint


@pytest.mark.parametrize(
    ("host", "is_crowded"),
    [("localhost", True), ("127.0.0.1", True), (socket.gethostname(), True), ("192.0.2.1", False)],
)
def test_the_cores_of_this_host_are_known_by_whatever_name_it_has(host, is_crowded):
    settings = bench_settings(sizes=(8,), hosts=f"{host}:8")
    manifest = planned_manifest(settings, FOUR_CORES, Tools(make_build(), None))

    # Of another host that is only known once it is asked.
    assert {record.oversubscribed for record in manifest.passes} == {is_crowded}
    assert {record.pinned for record in manifest.passes} == {not is_crowded}
