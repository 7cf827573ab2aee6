from dataclasses import replace

import pytest

from hvdprof.api import load_run
from hvdprof.model.notes import texts
from hvdprof.rundir.json_codec import to_text
from hvdprof.rundir.launch_format import DdpFacts
from hvdprof.rundir.layout import RunPaths
from tests.builders.run_directory import PassSpec, write_run

PLAIN = DdpFacts(gradient_bytes=8, bucket_cap_mb=0.5)
TRACED = replace(PLAIN, allreduces=[(4, 100)])


def ddp_run(folder, *passes):
    """A run directory with these passes: size, and what rank 0 noted of DDP if anything."""
    specs = [PassSpec(size=size, repeat=number) for number, (size, _) in enumerate(passes, 1)]
    write_run(folder, specs)
    for record, (_, facts) in zip(load_run(folder).manifest.passes, passes, strict=True):
        if facts is not None:
            RunPaths(folder).of_pass(record.id).ddp_facts.write_text(to_text(facts))
    return folder


@pytest.mark.heavy
def test_what_ddp_does_is_read_from_the_launch_that_measured_allreduces(tmp_path):
    of_one = replace(PLAIN, allreduces=[(4, 100), (4, 100)])

    run = load_run(ddp_run(tmp_path, (1, of_one), (2, PLAIN), (2, TRACED), (2, None)))

    assert run.ddp == TRACED


def test_a_run_without_ddp_has_no_facts(tmp_path):
    run = load_run(ddp_run(tmp_path, (2, None)))

    assert run.ddp is None
    assert run.notes == ()


@pytest.mark.heavy
def test_damaged_facts_are_a_note(tmp_path):
    folder = ddp_run(tmp_path, (2, PLAIN))
    pass_id = load_run(folder).manifest.passes[0].id
    RunPaths(folder).of_pass(pass_id).ddp_facts.write_text("{")

    run = load_run(folder)

    assert run.ddp is None
    assert texts(run.notes)[0].startswith(f"What {pass_id} noted of DDP cannot be read: ")
    assert "ddp.json is damaged" in texts(run.notes)[0]
