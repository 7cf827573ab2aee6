import math

import pytest

from benchmarks import blind_scripts
from benchmarks.blind_draw import (
    CLASSIC,
    INPUT,
    KINDS,
    NONE,
    PAUSES,
    PHASES,
    ROTATING,
    STEADY,
    STYLES,
    TWO,
    WARMUP_STEPS,
    Drawn,
    Loss,
    draw,
)
from benchmarks.blind_judgement import judge
from benchmarks.blind_scripts import command, main, page_text

STEPS = range(WARMUP_STEPS, 45)
LOSS = "2 ranks: 50 samples/s. Largest loss: {}, 30 ms per step (30 %); fix: compare with rank 0."


def drawn(kind, *bugs, style=CLASSIC):
    return Drawn(
        seed=7,
        kind=kind,
        style=style,
        np=3,
        workers=0,
        num_steps=45,
        accumulate=1,
        epoch=45,
        noise=0.01,
        parts_ms=dict.fromkeys(PHASES, 14.0),
        slow_worker=None,
        losses=tuple(Loss(rank, phase, (30.0,) * 45) for rank, phase in bugs),
    )


def row(ranks, phase="forward", term="straggler", cost_ms=30.0):
    names = {"term": term, "ranks": ranks, "phase": phase, "np": 3, "pattern": "persistent"}
    return names | {"period_steps": None, "time_ns": cost_ms * 1e6}


def report(loss, *waterfall, is_too_busy=False):
    steps = [
        {"pass_id": "net-np3-throughput", "steady": True, "step": step, "dur_ns": 100e6}
        for step in STEPS
    ]
    return {
        "tables": {"job_steps": steps, "waterfall": list(waterfall)},
        "findings": [],
        "verdict": {"sentence": LOSS.format(loss), "is_too_busy": is_too_busy},
    }


def lost(*ranks, seconds=0.03):
    return {rank: dict.fromkeys(STEPS, seconds) for rank in ranks}


def drawn_of(kind):
    return next(one for one in map(draw, range(500)) if one.kind == kind and one.np == 3)


def test_a_bug_named_next_to_a_longer_transfer_is_counted_apart():
    script = drawn(STEADY, (1, "forward"))
    transfer = "exposed transfer, 60 ms per step (40 %); fix: use fp16, data. Next: "
    leading, named = f"{transfer}straggler (rank 1, {{}} phase)", row("1")

    _, found = judge(script, report(leading.format("forward"), named), lost(1))
    assert found.is_right and found.is_behind and not found.has_false_name
    assert not judge(script, report(leading.format("data"), named), lost(1))[1].is_right
    assert not judge(script, report("exposed transfer", named), lost(1))[1].is_right
    assert not judge(script, report("rank 1, forward", named), lost(1))[1].is_behind


def test_a_seed_draws_the_same_script_and_200_seeds_draw_all_of_them():
    scripts = [draw(seed) for seed in range(200)]

    assert [draw(seed) for seed in range(200)] == scripts
    assert {one.kind for one in scripts} == set(KINDS)
    assert {one.style for one in scripts} == set(STYLES)
    assert {one.workers for one in scripts} == {0, 1, 2, 4}
    assert {one.np for one in scripts} == {2, 3, 4}
    assert {one.kind for one in map(draw, range(7000, 7014))} == set(KINDS)


@pytest.mark.parametrize("seed", range(42))
def test_a_bug_costs_10_to_60_percent_of_a_step_and_lies_where_it_can(seed):
    script = draw(seed)

    usual_ms = sum(script.parts_ms.values())
    assert 40 <= usual_ms <= 120
    assert (script.kind == NONE) == (not script.bugs)
    assert "data" not in {loss.phase for loss in script.losses} or script.workers == 0
    for ms in {loss.ms for loss in script.losses if loss.phase != "worker"}:
        mean_ms = math.fsum(ms[WARMUP_STEPS:]) / (script.num_steps - WARMUP_STEPS)
        assert len(ms) == script.num_steps
        assert script.kind == ROTATING or mean_ms > 0.1 * usual_ms
        assert mean_ms < 0.6 * (usual_ms + 40.001)


@pytest.mark.parametrize(
    ("script", "loss", "waterfall", "right"),
    [
        (drawn(STEADY, (1, "forward")), "straggler rank 1, forward phase", [row("1")], (1, 1, 0)),
        (drawn(STEADY, (1, "forward")), "straggler rank 1, data phase", [row("1")], (1, 0, 0)),
        (drawn(STEADY, (1, "forward")), "straggler rank 2, forward phase", [row("2")], (0, 1, 1)),
        (drawn(STEADY, (1, "forward")), "rank 1, forward", [row("1"), row("2")], (1, 1, 1)),
        (drawn(STEADY, (1, "forward")), "exposed transfer", [], (0, 0, 0)),
        (drawn(STEADY, (1, "forward")), "rank 1, 6.27 ms in forward", [row("1")], (1, 1, 0)),
        (drawn(NONE), "exposed transfer", [], (1, None, 0)),
        (drawn(NONE), "jitter, most of it of rank 1", [], (0, None, 1)),
        (drawn(INPUT, (0, "data")), "input-bound: every rank waits for data", [], (1, 1, 0)),
        (drawn(PAUSES, (0, "outside")), "all ranks pause every 6 steps", [], (1, 1, 0)),
        (drawn(ROTATING, (0, "data")), "rotating stragglers (jitter)", [], (1, None, 0)),
        (drawn(ROTATING, (0, "data")), "any rank is late", [row("any")], (1, None, 0)),
        (drawn(ROTATING, (0, "data")), "ranks wait for data in turn", [], (1, None, 0)),
        (drawn(INPUT, (0, "data")), "ranks wait for data in turn", [], (1, 1, 0)),
        (drawn(INPUT, (0, "data")), "rank 1 waits longest for data", [], (0, 1, 1)),
        (drawn(ROTATING, (0, "data")), "straggler rank 1", [row("1")], (0, None, 1)),
        (
            drawn(TWO, (1, "forward"), (2, "data")),
            "straggler rank 2, data phase",
            [row("1"), row("2", "data")],
            (1, 1, 0),
        ),
        (
            drawn(TWO, (1, "forward"), (2, "data")),
            "straggler rank 2, data phase",
            [row("2", "data")],
            (0, 1, 0),
        ),
    ],
)
def test_what_is_said_is_right_or_wrong_or_a_false_name(script, loss, waterfall, right):
    _, judgement = judge(script, report(loss, *waterfall), lost(1))

    assert (judgement.ranks, judgement.phase, judgement.has_false_name) == right


def test_the_cost_is_compared_with_what_the_script_lost():
    script = drawn(STEADY, (1, "forward"))
    said = report("rank 1, forward", row("1", cost_ms=33))

    assert judge(script, said, lost(1))[1].cost_error == pytest.approx(0.1)
    small = judge(script, said, lost(1, seconds=0.004))[1]
    assert small.cost_error is None
    assert small.why_not == "cost less than 5% of a step"


def test_a_launch_that_hvdprof_does_not_judge_is_counted_apart(tmp_path):
    script = drawn(STEADY, (1, "forward"))
    (tmp_path / script.name).mkdir()
    (tmp_path / script.name / "done").write_text("2026-11-27 3.1")
    busy = (script, *judge(script, report("", is_too_busy=True), lost(1)))
    wrong = (script, *judge(script, report("rank 2, forward", row("2")), lost(1)))

    text = page_text([busy, wrong], tmp_path)

    assert "not judged: too busy: 1." in text
    assert "| steady | 1 | 0 | 1 of 1 | 0 | 0 | 0 of 1 | 1 |  |" in text
    assert "| 7 | DistributedOptimizer, 3 ranks, beside | steady: forward 1 | ranks" in text


def test_a_failed_launch_is_printed_and_left_out(tmp_path, monkeypatch, capsys):
    arguments = ["--folder", str(tmp_path), "--first-seed", "4", "--launches", "1"]
    monkeypatch.setattr("sys.argv", ["blind_scripts", *arguments])
    monkeypatch.setattr(blind_scripts, "command", lambda *_: ["sh", "-c", "echo broken; exit 3"])

    main()

    printed = capsys.readouterr()
    assert "broken" in printed.err
    assert not printed.out


def test_scripts_of_torch_start_under_torchrun(tmp_path):
    assert "torchrun" in command(drawn(NONE, style="fsdp"), tmp_path)
    assert "gloo" in command(drawn(NONE), tmp_path)
