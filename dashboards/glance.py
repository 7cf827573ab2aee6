"""What a list of runs says of an analyzed run: its verdict in a few words, and its steps.

Tested in ``tests/dashboards/test_runs.py``.
"""

from typing import NamedTuple

import numpy as np

from hvdprof.figures.typical_step import run_strip
from hvdprof.model.causes import CAUSES
from hvdprof.model.cell_key import of_base_cell
from hvdprof.model.file_page import Gravity
from hvdprof.model.run import RunAnalysis, Verdict
from hvdprof.model.standalone_files import FilesAnalysis
from hvdprof.model.tables.waterfall_tables import WATERFALL
from hvdprof.report.answers.files import files_answer
from hvdprof.report.finding_texts import each_sentence
from hvdprof.report.screen.open_points import verdict_band
from hvdprof.report.screen.tiles import BAD, CAUTION, GOOD, tiles, verdict_cell

MOST_POINTS = 32
_SMALLEST_LOSS = 0.05
_CLEAN = "No loss of 5 % or more"
_NO_VERDICT = "no verdict: open for the facts"
_TONES = {Gravity.HANG: BAD, Gravity.ERROR: BAD, Gravity.WARNING: CAUTION, Gravity.CLEAN: GOOD}


class Glance(NamedTuple):
    """A run or a standalone file at a glance.

    ``tone`` is ``bad`` where it stalled or failed, ``caution`` where a loss stands out, ``good``
    where each cause is surely below 5 % of the step; otherwise empty. ``steps`` are times of steps
    of one launch in order, as shares of the highest. ``verdict`` is None of a file.
    """

    tone: str
    sentence: str
    verdict: Verdict | None = None
    trust: str = ""
    steps: tuple[float, ...] = ()


def glance(analysis: RunAnalysis | FilesAnalysis) -> Glance:
    """An analyzed run at a glance; of files, what `hvdprof analyze` says first."""
    if isinstance(analysis, FilesAnalysis):
        said = (one.verdict for one in files_answer(analysis).page().sections if one.verdict)
        gravest = min((file.gravity for file in analysis.files), default=Gravity.NONE)
        return Glance(_TONES.get(gravest, ""), each_sentence(next(said, _NO_VERDICT))[0])
    verdict, cell = analysis.verdict, verdict_cell(analysis)
    band = verdict_band(analysis, cell)
    strip = None if cell is None else run_strip(analysis, cell)
    heights = np.array([] if strip is None else [one.height for one in strip.columns])
    bins = np.array_split(heights, min(len(heights), MOST_POINTS) or 1)
    failed = [one.reason for one in analysis.failed if not one.is_counted]
    tone, sentence = "", each_sentence(band.sentence)[0]
    if verdict.parts.lead or failed:
        tone, sentence = BAD, verdict.parts.lead or failed[0]
    elif verdict.biggest_loss:
        tone = CAUTION
    elif _is_clean(analysis):
        tone, sentence = GOOD, _CLEAN
    steps = tuple(float(one.max()) for one in bins if len(one))
    return Glance(tone, sentence, verdict, tiles(analysis, cell)[-1].value, steps)


def _is_clean(analysis: RunAnalysis) -> bool:
    """Whether every cause in the verdict's cell is below 5 % of the step, its interval too."""
    verdict = analysis.verdict
    rows = of_base_cell(analysis.table(WATERFALL.name), verdict.model, verdict.np, verdict.engine)
    shares = rows.loc[rows["term"].isin(CAUSES), ["share", "share_high"]].to_numpy(dtype=float)
    return not verdict.is_too_busy and len(shares) > 0 and bool((shares < _SMALLEST_LOSS).all())
