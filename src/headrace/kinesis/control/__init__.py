"""The operations that manage streams, one file for each thing they manage. Each is a function from a `Call` to an answer."""
