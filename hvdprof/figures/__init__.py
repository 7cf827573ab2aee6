"""Tables to plotly figures, for the dashboard and the report alike."""
