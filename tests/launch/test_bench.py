import pytest

from hvdprof.errors import EnvironmentNotReadyError
from hvdprof.launch.bench import Tools, prepare
from tests.builders.survey import make_build


def test_a_horovod_without_torch_cannot_run_the_reference_models():
    build = make_build(torch=False, torch_version="", tensorflow_version="2.15.1")

    with pytest.raises(EnvironmentNotReadyError, match=r"for TensorFlow 2\.15\.1 alone") as caught:
        prepare(None, {}, Tools(build, None), controller="auto", device="auto")
    assert "hvdprof run" in caught.value.hint
