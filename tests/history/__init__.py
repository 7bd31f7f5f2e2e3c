"""A history of what clients of a log did and saw, and a checker of it: `history.problems`. Used by the campaigns in tests/soak;
its own tests plant each fault and show that it is found."""
