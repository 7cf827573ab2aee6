"""What the largest loss of a verdict costs per hour in money, at the price of a GPU or rank.

Tested in ``tests/analyze/verdict/test_loss_cost.py``.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from hvdprof import units
from hvdprof.analyze.stats.uncertainty import NAN
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.job_losses import LossCost, job_losses, share_of_job
from hvdprof.model.run import Run, Verdict
from hvdprof.rundir.gpu_crowd import PRICE_OPTION, checked_price, price_in
from hvdprof.rundir.manifest import Manifest


def price_of(
    manifest: Manifest, given: float | None, environment: Mapping[str, str] = os.environ
) -> float | None:
    """The price per GPU or rank and hour: the given one, else the run's, else the environment's.

    None where none is stated, and where it is 0.

    Raises:
        UsageError: It is no number, or negative.
    """
    stated: object = manifest.options.get(PRICE_OPTION) if given is None else given
    price = price_in(environment) if stated is None else checked_price("--price", stated)
    return price or None


def with_price(
    run: Run, answer: Verdict, findings: pd.DataFrame, waterfall: pd.DataFrame, price: float | None
) -> Verdict:
    """The verdict with what its largest loss costs; as it was where it names none.

    Args:
        run: The run.
        answer: Its verdict.
        findings: FINDINGS of the run.
        waterfall: WATERFALL of the run, whose interval of the loss becomes that of the money.
        price: Of a GPU, or of a rank that computes on none, per hour; None for no money.
    """
    if price is None or answer.parts.lead or not (share := _shares(answer, findings, waterfall)):
        return answer
    num_devices, kind = _devices(run, answer)
    if not num_devices:
        return answer
    total = price * num_devices
    loss, low, high = (part * total for part in share)
    cost = LossCost(price, kind, num_devices, total, loss, low, high)
    text = (
        f"The largest loss costs {units.rate_interval(loss, low, high)} of "
        f"{units.money(total)} per hour ({units.counted(num_devices, kind)})"
    )
    return replace(
        answer,
        sentence=f"{answer.sentence} {text}.",
        parts=replace(answer.parts, headline=f"{answer.headline} {text}."),
        loss_cost=replace(cost, sentence=text),
    )


def _shares(
    answer: Verdict, findings: pd.DataFrame, waterfall: pd.DataFrame
) -> Sequence[float] | None:
    """The share of the job of the named loss, with its interval; None where none is named."""
    if not answer.biggest_loss:
        return None
    losses = job_losses(findings, answer.model, answer.np, answer.engine)
    if (beyond := losses.larger_beyond(answer.biggest_loss_share)) is not None:
        return (beyond.share, NAN, NAN)
    rows = of_base_cell(waterfall, answer.model, answer.np, answer.engine)
    named = rows[(rows["cause_id"] == answer.parts.cause_id).to_numpy(dtype=bool)]
    shares = [answer.biggest_loss_share, NAN, NAN]
    if answer.parts.cause_id and len(named):
        shares = [float(named.iloc[0][name]) for name in ("share", "share_low", "share_high")]
    return [share_of_job(share, losses.outside) for share in shares]


def _devices(run: Run, answer: Verdict) -> tuple[int, str]:
    """How many devices the ranks of the cell have, and what they are; 0 where that is unknown."""
    segments, ranks = run.segments, run.ranks
    own = segments[
        (segments["model"].astype(str) == answer.model)
        & (segments["size"] == answer.np)
        & (segments["engine"].astype(str) == answer.engine)
    ]
    passes = own["pass_id"].astype(str).tolist()
    rows = ranks[(ranks["pass_id"].astype(str).isin(passes[:1])).to_numpy(dtype=bool)]
    devices = rows["device"].astype(str)
    if not len(rows) or devices.isin(("cpu", "")).any():
        return answer.np, "rank"
    known = set(zip(rows["hostname"].astype(str), rows["gpu"].astype(str), strict=True))
    if all(gpu for _, gpu in known):
        return len(known), "GPU"
    # Ranks share GPUs, and the number of these is unknown.
    return (0 if own["oversubscribed"].any() else answer.np), "GPU"
