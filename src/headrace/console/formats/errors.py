"""What can be wrong. The text of each is one line, for people."""

from __future__ import annotations


class WrongSchema(Exception):
    """What was given is no schema."""


class Undecodable(Exception):
    """The data is not what the schema says."""
