"""The timeline of a pass: lanes, bins, the events in view."""
