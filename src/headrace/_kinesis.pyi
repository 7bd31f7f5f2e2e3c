"""The compiled twin has the classes of `headrace.kinesis.data.pure`, and `scan`, which there is none of in Python."""

from headrace.kinesis.data.pure import CBOR as CBOR
from headrace.kinesis.data.pure import JSON as JSON
from headrace.kinesis.data.pure import RPC as RPC
from headrace.kinesis.data.pure import Puts as Puts
from headrace.kinesis.data.pure import RecordList as RecordList
from headrace.kinesis.data.pure import scan as scan
