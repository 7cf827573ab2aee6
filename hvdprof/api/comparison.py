"""Two measured cells side by side."""

from hvdprof.analyze.causes.waterfall_diff import waterfall_diff

__all__ = ["waterfall_diff"]
