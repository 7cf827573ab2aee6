"""Results of gates for CI: JUnit XML and GitHub annotations of comparisons and limits."""
