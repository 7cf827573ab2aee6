"""Tests, one folder a package of the project; real parts are marked (pyproject.toml)."""
