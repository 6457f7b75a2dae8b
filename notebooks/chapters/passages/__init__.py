"""Docstrings cut short, and what a model holds at their ends: notebooks 22 and 23 share it."""
