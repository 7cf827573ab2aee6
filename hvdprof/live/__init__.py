"""While a job runs: follow its recorders, name what is wrong, report it where people look."""
