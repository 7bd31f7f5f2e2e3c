"""The log port (`port`), its errors, the settings of a topic, and the engines that implement it.

May import `record`, `disk` and `clock`; imported by `broker` and the front ends.
"""
