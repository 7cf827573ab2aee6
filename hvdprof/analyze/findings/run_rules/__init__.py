"""Rules on a run; ``run_findings`` lists them."""
