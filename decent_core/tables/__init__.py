"""Tables of runs: which runs a table has, what they cost, and how they are started."""
