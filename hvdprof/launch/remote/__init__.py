"""Launches whose ranks run on other hosts: asked before, watched meanwhile, fetched afterwards."""
