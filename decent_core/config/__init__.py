"""From conf/ and the command line to one validated configuration."""
