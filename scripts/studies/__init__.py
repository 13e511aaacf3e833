"""Methods over a grid of learning rates and seeds."""
