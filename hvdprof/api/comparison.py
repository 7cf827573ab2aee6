"""Two measured cells side by side.

Tested in ``tests/analyze/causes/test_waterfall_diff.py``.
"""

from hvdprof.analyze.causes.waterfall_diff import waterfall_diff

__all__ = ["waterfall_diff"]
