"""One topology a file, found by its name. `schedule(world, **options)` raises ValueError for a world it can't serve."""
