"""What hvdprof costs, and how right it is, measured."""
