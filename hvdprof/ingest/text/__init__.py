"""Bytes to lines: encodings, compression, log prefixes of launchers, numbers in text."""
