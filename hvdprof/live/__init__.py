"""While a job runs: follow its recorders, name what is wrong, tell it to where people look."""
