"""Optional: a notebook at every point of a grid, by workers that may die."""
