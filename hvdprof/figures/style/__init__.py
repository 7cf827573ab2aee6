"""Colours, axes and text of every figure."""
