"""One pass of a run as a Chrome trace."""
