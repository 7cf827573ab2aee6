"""Tables as files, as CSV, and queried with SQL."""
