"""Files, processes and signals. No torch."""
