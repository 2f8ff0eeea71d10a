"""Benchmarks: commands that print a table and write JSON. Run through scripts/bench."""
