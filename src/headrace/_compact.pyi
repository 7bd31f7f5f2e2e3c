"""The compiled twin has exactly the class of `headrace.log.embedded.offset_map`."""

from headrace.log.embedded.offset_map import PureOffsetMap as OffsetMap

__all__ = ["OffsetMap"]
