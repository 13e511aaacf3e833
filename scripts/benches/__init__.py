"""Step times, beside other implementations and beside predictions."""
