"""Who lost how much in which phase, whether that is chance, who waits for whom, and stragglers."""
