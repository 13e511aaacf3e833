"""What a run leaves behind: its record, where it comes from, its step log; and published numbers. No torch."""
