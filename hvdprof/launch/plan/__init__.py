"""What will run, before any process starts: options, settings, design, environment, preflight."""
