"""The files of a run directory beside recordings: logs, stalls, network, attached files."""
