import pytest

from hvdprof.api import analyze_files, load_run
from hvdprof.model.file_page import Fact, FilePage
from hvdprof.report.screen.file_tiles import file_tiles
from hvdprof.report.screen.tiles import BAD, CAUTION, GOOD
from tests.builders.places import RECORDINGS


def page(*facts, **values):
    return FilePage("job.log", "a log", 100, facts, (), **values)


def by_title(shown):
    return {tile.title: (tile.value, tile.detail, tile.tone) for tile in file_tiles(shown)}


@pytest.mark.heavy
def test_a_timeline_has_its_largest_cause_its_shares_and_what_limits_them():
    path = RECORDINGS / "04_gloo_straggler_rank1_cache_off.json"
    (file,) = analyze_files(load_run(path)).files
    shown = by_title(file)
    assert list(shown) == [
        "Largest cause",
        "Negotiation",
        "Payload bandwidth",
        "Collectives",
        "Trust",
    ]
    value, detail, _ = shown["Largest cause"]
    assert value.endswith("% of the time")
    assert detail == "waiting for the last rank, mostly rank 1"
    # The verdict states the same share.
    share = shown["Negotiation"][0].removesuffix(" of the time")
    assert f"negotiation for {share}" in file.verdict
    assert shown["Trust"][0] == "limited"


def test_without_the_ranks_of_every_use_the_cause_is_negotiation_or_the_collectives():
    facts = [Fact("negotiating_share", "n", 0.2, "ratio")]
    assert by_title(page(*facts))["Largest cause"][:2] == ("20.0 % of the time", "negotiation")
    more = [*facts, Fact("executing_steady_share", "", 0.4, "ratio")]
    assert by_title(page(*more))["Largest cause"][1] == "collectives"
    little = [Fact("negotiating_share", "n", 0.01, "ratio")]
    assert by_title(page(*little))["Largest cause"][0] == "none"


@pytest.mark.parametrize(
    ("facts", "title", "value", "detail"),
    [
        (
            [Fact("hang_ranks", "h", "9, 14"), Fact("num_blocked", "b", 14)],
            "Hang",
            "ranks 9, 14",
            "14 other ranks blocked",
        ),
        (
            [Fact("num_pending", "p", 3, text="3 tensors for 12.0 s")],
            "Pending at the end",
            "3 tensors",
            "3 tensors for 12.0 s",
        ),
        (
            [Fact("num_timeouts", "t", 2), Fact("timeout_ranks", "r", "3")],
            "Collective timeouts",
            "2",
            "on rank 3",
        ),
        (
            [Fact("num_stall_warnings", "s", 1), Fact("missing_ranks", "r", "0, 1")],
            "Stall warnings",
            "1",
            "not submitted by ranks 0, 1",
        ),
        ([Fact("failed", "f", "yes")], "Result", "failed", ""),
        ([Fact("num_wrong", "w", 3)], "Result", "failed", "3 wrong elements"),
        ([Fact("silent_ranks", "s", "7")], "Without an answer", "rank 7", None),
    ],
)
def test_what_is_wrong_comes_first_and_needs_no_trust(facts, title, value, detail):
    other = Fact("num_problems", "p", 11)
    first, *others = file_tiles(page(*facts, other))
    assert (first.title, first.value, first.tone) == (title, value, BAD)
    assert detail is None or first.detail == detail
    assert [(one.title, one.tone) for one in others] == [("NCCL warnings and errors", CAUTION)]


@pytest.mark.parametrize(
    ("verdict", "caveat", "known", "tone", "reason"),
    [
        ("Fine.", "", True, GOOD, "no caveat for this file"),
        ("Fine.", "Sizes are guessed. Else fine.", True, CAUTION, "Sizes are guessed"),
        ("Times fall back.", "", False, BAD, "Times fall back"),
        ("Too short: 1 execution. More.", "", False, BAD, "Too short: 1 execution"),
        ("Too short to judge: no.", "", True, GOOD, "no caveat for this file"),
    ],
)
def test_trust_is_the_first_thing_that_limits_the_numbers(verdict, caveat, known, tone, reason):
    fact = Fact("peak_busbw_gb_s", "peak", 235.0, "GB/s")
    peak, trust = file_tiles(page(fact, verdict=verdict, caveat=caveat, has_numbers=known))
    assert (peak.title, peak.value) == ("Peak busbw", "235 GB/s")
    assert (trust.tone, trust.detail) == (tone, reason)


def test_unknown_values_and_empty_files_have_no_tiles():
    nothing = [
        Fact("avg_busbw_gb_s", "average", float("nan"), "GB/s"),
        Fact("num_ranks", "r", None),
    ]
    assert file_tiles(page(*nothing)) == ()
    assert file_tiles(page()) == ()


def test_at_most_five_are_shown():
    facts = [
        Fact("num_ranks", "r", 2),
        Fact("num_steps", "s", 4),
        Fact("step_median_ns", "m", 5e6, "ns"),
        Fact("blocked_share", "b", 0.25, "ratio"),
        Fact("total_samples_per_s", "t", 100.0, "samples/s"),
        Fact("transports", "t", "NET 2"),
    ]
    shown = by_title(page(*facts))
    assert len(shown) == 5
    assert shown["Exposed communication"][0] == "25.0 %"
    assert shown["Trust"][:2] == ("limited", "only 4 steps")


def test_a_share_without_a_percentile_names_none():
    shown = by_title(page(Fact("executing_share", "executing", 0.139, "ratio")))
    assert shown["Collectives"][:2] == ("13.9 % of the whole file", "")


def test_the_share_of_collectives_is_that_of_the_verdict():
    facts = [
        Fact("executing_share", "executing", 0.263, "ratio"),
        Fact("executing_steady_share", "", 0.19, "ratio"),
    ]
    shown = by_title(page(*facts))
    assert shown["Collectives"][0] == "19.0 % of the steady part"


def test_one_dump_of_many_is_trusted_no_further_than_it_goes():
    facts = [Fact("num_ranks", "ranks", 1), Fact("missing_dumps", "no dump of", "ranks 0, 2")]
    assert by_title(page(*facts))["Trust"] == ("limited", "no dump of ranks 0, 2", CAUTION)


def test_trust_is_good_only_beside_a_verdict_of_the_file_itself():
    fact = Fact("world_size", "ranks", 4)
    busy = page(fact, Fact("negotiating_share", "n", 0.2, "ratio"), verdict="Ranks wait.")
    assert by_title(busy)["Trust"][:2] == ("good", "no caveat for this file")
    # The verdict of the run, which may be limited, holds that of the file.
    held = page(fact, Fact("negotiating_share", "n", 0.2, "ratio"))
    assert "Trust" not in by_title(held)
