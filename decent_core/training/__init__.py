"""One training run: joins the ranks, builds the parts, trains, evaluates, saves and writes the record."""
