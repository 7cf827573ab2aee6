"""The command line: options to api to report, one module per kind of command."""
