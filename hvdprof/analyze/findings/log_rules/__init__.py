"""Rules on the output of jobs; ``log_findings`` lists them."""
