# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The compiled twin of `headrace.kinesis.data.pure`: the same classes, the same answers, the same exceptions.

Docstrings and the why are over there; here is only how.

- `Puts` (`_kinesis_puts.pxi`) holds pointers into the body (or into the objects that it was given), and base64 decoded once into
  memory of its own; a batch is written in one go.
- `RecordList` (`_kinesis_lists.pxi`) walks over batches twice: once to see that they are sound, once to write.
- `scan` (`_kinesis_scan.pxi`) reads JSON and CBOR of the usual form and gives up (None) at whatever else it meets, so that there
  is one place for what is wrong with a request: the thorough way.

Nothing is read beyond the buffers given, whatever they say of themselves; every write goes to memory whose size was counted
before, or that grows (`reserve`).
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from cpython.ref cimport PyObject, Py_XDECREF

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* start, Py_ssize_t size) except NULL
    int resize_bytes "_PyBytes_Resize"(PyObject** held, Py_ssize_t size) except -1
    char* bytes_start "PyBytes_AS_STRING"(PyObject* held)

cdef extern from "native.h":
    uint32_t get32 "hr_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hr_get64"(const uint8_t* p) noexcept nogil
    void put16 "hr_put16"(uint8_t* p, uint32_t v) noexcept nogil
    void put32 "hr_put32"(uint8_t* p, uint32_t v) noexcept nogil
    void put64 "hr_put64"(uint8_t* p, uint64_t v) noexcept nogil
    void native_init "hr_init"() noexcept nogil
    uint32_t crc_of "hr_crc32c"(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

cdef extern from "kinesis.h":
    ctypedef struct hr_number:
        pass
    void kinesis_init "hr_kinesis_init"() noexcept nogil
    void md5_of "hr_md5"(const uint8_t* p, size_t n, uint64_t* high, uint64_t* low) noexcept nogil
    size_t encode64 "hr_encode64"(const uint8_t* p, size_t n, uint8_t* out) noexcept nogil
    Py_ssize_t decode64 "hr_decode64"(const uint8_t* p, size_t n, uint8_t* out) noexcept nogil
    void number_of "hr_number_of"(hr_number* number, const uint8_t* base, uint64_t more) noexcept nogil
    void number_next "hr_number_next"(hr_number* number) noexcept nogil
    size_t number_size "hr_number_size"(const hr_number* number) noexcept nogil
    uint8_t* number_write "hr_number_write"(const hr_number* number, uint8_t* out) noexcept nogil
    uint8_t* write_decimal "hr_write_decimal"(uint8_t* out, uint64_t value) noexcept nogil
    int vectors "hr_avx2"
    int parse_hash "hr_parse_hash"(const uint8_t* p, Py_ssize_t n, uint64_t* high, uint64_t* low) noexcept nogil

native_init()
kinesis_init()

JSON, CBOR, RPC = range(3)

cdef enum:
    IN_JSON = 0
    IN_RPC = 2
    HEADER_SIZE = 61
    LENGTH_BASE = 12
    CRC_START = 21
    COMPRESSION = 0x07
    APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    SMALLEST_RECORD = 7
    RECORD_BYTES = 36  # as in pure
    MOST_RECORDS = 500
    LONGEST_KEY = 256
    MOST_DATA = 10485760
    BASE_BYTES = 24
    SLACK = 64  # what the vector code may write too much

cdef bytes HEADER_NAME = b"kinesis.explicit-hash-key"
cdef int64_t LAST_MS = 253402300799999

include "_kinesis_puts.pxi"
include "_kinesis_lists.pxi"
include "_kinesis_scan.pxi"


import re  # noqa: E402
from base64 import b64encode  # noqa: E402

from headrace.kinesis.codec.bodies import encode  # noqa: E402
from headrace.kinesis.codec.cbor import head  # noqa: E402
from headrace.kinesis.codec.encoding import Encoding  # noqa: E402
from headrace.record.errors import CorruptBatch  # noqa: E402

ENCODINGS = (Encoding.JSON, Encoding.CBOR, Encoding.RPC)
ARN = re.compile(r"arn:aws[a-z-]*:kinesis:[a-z0-9-]*:\d{12}:stream/[a-zA-Z0-9_.-]+", re.ASCII)
