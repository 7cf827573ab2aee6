"""Bytes to lines: encodings, compression, log prefixes, numbers in text."""
