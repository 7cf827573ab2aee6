"""Figures as image files."""
