"""Picks the implementation: the compiled `headrace._columns` where it was built, pure Python otherwise.

HEADRACE_PURE=1 in the environment asks for pure Python. Both have the same functions, and the same tests run over both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    from headrace.spark.columns import pure_decode as decoding
    from headrace.spark.columns import pure_encode as encoding
else:
    try:
        from headrace import _columns as decoding

        encoding = decoding
        decoding.Decoder, encoding.encode_rows  # noqa: B018  a build from before the twin had its functions counts as none
    except (ImportError, AttributeError):
        from headrace.spark.columns import pure_decode as decoding
        from headrace.spark.columns import pure_encode as encoding

COMPILED: bool = decoding.__name__ == "headrace._columns"

survey = decoding.survey
Decoder = decoding.Decoder
choose_targets = encoding.choose_targets
encode_rows = encoding.encode_rows
