"""Running a design pass by pass: sweep, attempts, progress, lock."""
