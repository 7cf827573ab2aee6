"""What a pytest that a test starts loads: of the plugins installed here only those of make test.

Hypothesis, the coverage and Dash take 0.6 s of 0.9 s of a start, and say nothing there.
"""

PLUGINS = tuple(
    word
    for name in ("no:cacheprovider", "xdist.plugin", "pytest_rerunfailures", "pytest_timeout")
    for word in ("-p", name)
)
"""Options of each such pytest."""

NO_OTHERS = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Its variables."""
