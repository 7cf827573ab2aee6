import pytest

from hvdprof.analyze.findings.tune_command import tune_command
from tests.builders.finished_analysis import manifest, run

OF_SCRIPT = {"command": ["/venv/bin/python", "train.py"], "is_function": False}


def command(words, script=OF_SCRIPT, options=None, **settings):
    own = {"script": script, "launcher": "horovodrun", "hosts": None} | settings
    recorded = manifest(command=words, settings=own, options=options or {})
    return tune_command(run(manifest=recorded), 4)


RUN = ["hvdprof", "run", "--np", "1,4", "--", "python", "train.py", "--name", "a b"]


def test_the_script_is_named_as_the_user_wrote_it():
    assert command(RUN) == "hvdprof tune --np 4 -- python train.py --name 'a b'"


def test_launcher_and_hosts_are_those_of_the_run():
    assert command(RUN, launcher="torchrun").startswith(
        "hvdprof tune --launcher torchrun --np 4 --"
    )
    assert "--hosts h1:2,h2:2 --" in command(RUN, hosts="h1:2,h2:2")


def test_a_command_of_torchrun_says_the_number_of_ranks_itself():
    words = ["hvdprof", "run", "--", "torchrun", "--nproc-per-node", "4", "train.py"]

    assert command(words) == "hvdprof tune -- torchrun --nproc-per-node 4 train.py"


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["hvdprof", "bench", "--np", "4"], None),
        (["hvdprof", "attach", "runs/a"], OF_SCRIPT),
        (RUN, OF_SCRIPT | {"is_function": True}),
    ],
)
def test_what_tune_cannot_start_has_no_command(words, script):
    assert command(words, script) == ""


def test_an_elastic_job_cannot_be_tuned():
    assert command(RUN, options={"host_discovery_script": "./hosts.sh"}) == ""
