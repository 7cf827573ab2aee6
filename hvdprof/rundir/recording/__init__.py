"""Recorder files and what lies beside them: every line declared once."""
