"""Why a step takes longer than its baseline: replay, waterfall, ceilings, lines of code."""
