"""The command line: options to api to report, one file per command."""
