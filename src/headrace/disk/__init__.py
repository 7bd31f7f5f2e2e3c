"""Bytes on a disk: the port that tests can hold still, and the real one. Imports nothing of Headrace but its
compiled twin; imported by `log`."""
