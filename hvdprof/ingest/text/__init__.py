"""Bytes to lines: encodings, compression, Hydra's log prefixes, numbers in text."""
