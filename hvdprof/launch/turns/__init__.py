"""Launches that stay resident together on one host and take turns."""
