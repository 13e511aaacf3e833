"""Progress and time left, on a terminal or in a job log. No torch."""
