"""The simulated launches of benchmarks.syncs_simulated."""

import pytest

from benchmarks.syncs_simulated import Setting, markdown, outcomes


@pytest.mark.heavy
def test_a_fault_is_named_and_a_clean_launch_names_nothing() -> None:
    faulty, clean = (Setting(4, 3, "independent", True, share) for share in (0.2, 0.0))
    found = {one: outcomes((one, 2)) for one in (faulty, clean)}

    assert all(one.is_first and one.is_phase_right for one in found[faulty])
    assert all(abs(one.gain_error) < 0.15 for one in found[faulty])
    assert not any(one.names_another for one in found[clean])


@pytest.mark.heavy
def test_the_tables_hold_every_launch() -> None:
    grid = [Setting(ranks, 3, "independent", False, 0.1) for ranks in (2, 4, 8)]
    clean = [Setting(ranks, 3, "independent", False, 0.0) for ranks in (2, 4, 8)]
    text = markdown({one: outcomes((one, 1)) for one in (*grid, *clean)})

    assert "| 4 | 10% | 1 | 100.0% | 100.0% | 100.0% | 0.0% |" in text
    assert "| 8 | 1 | 0 (0.00%) |" in text
