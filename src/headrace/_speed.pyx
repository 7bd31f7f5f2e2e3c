# cython: language_level=3
"""The compiled twin of the hot paths."""
