"""What several tasks share: sampling, preparing data, work over processes."""
