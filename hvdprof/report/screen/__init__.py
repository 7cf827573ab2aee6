"""What every front end shows first: the headline, five numbers, and each rank's phases."""
