"""`hvdprof doctor`: the survey of the machine and the checks on it."""
