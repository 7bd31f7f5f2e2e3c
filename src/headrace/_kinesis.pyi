"""The compiled twin has exactly what `headrace.kinesis.data.pure` has, and one function more for its own tests."""

from headrace.kinesis.data.pure import CBOR as CBOR
from headrace.kinesis.data.pure import JSON as JSON
from headrace.kinesis.data.pure import RPC as RPC
from headrace.kinesis.data.pure import Puts as Puts
from headrace.kinesis.data.pure import RecordList as RecordList
from headrace.kinesis.data.pure import scan as scan

def use_vectors(use: bool) -> bool: ...
