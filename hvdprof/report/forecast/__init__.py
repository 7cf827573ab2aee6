"""A forecast of scaling as terminal text, JSON and CSV, and the score of earlier forecasts."""
