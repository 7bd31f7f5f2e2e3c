"""Record batches to Arrow columns and back, by the batch: no Python runs for a row where the twin is compiled.

twin            picks `headrace._columns` or pure Python
pure_decode     fetched bytes to columns        arrow    columns to an Arrow batch of the source's schema
pure_encode     columns to encoded records      views    Arrow's buffers as the twins take them
layout          the form in which bytes are handed over, both ways
errors          what can be wrong with rows
"""
