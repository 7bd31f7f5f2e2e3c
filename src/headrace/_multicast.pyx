# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of what nearly every datagram of a feed goes through: see `headrace.multicast.feed.short_way`, which has the
same functions in Python. A feed of a few thousand events a second finds the processor's caches cold each time, and then it is
the amount of code that counts: here it is a tenth.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_TYPE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef extern from "native.h":
    uint32_t get32 "hr_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hr_get64"(const uint8_t* p) noexcept nogil
    void put16 "hr_put16"(uint8_t* p, unsigned short v) noexcept nogil
    void put32 "hr_put32"(uint8_t* p, uint32_t v) noexcept nogil
    void put64 "hr_put64"(uint8_t* p, uint64_t v) noexcept nogil
    void native_init "hr_init"() noexcept nogil
    uint32_t crc32c "hr_crc32c"(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

native_init()

cdef enum:  # as in `datagrams`
    HEADER_SIZE = 56
    COVERED = 8
    LARGEST_RECORD = 65_507

cdef const uint8_t* START = b"HRF\x01"


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while rest >= 0x80:
        p[0] = <uint8_t>(rest | 0x80)
        rest >>= 7
        p += 1
    p[0] = <uint8_t>rest
    return p + 1


cdef inline uint8_t* put_bytes(uint8_t* p, object data) noexcept:
    cdef Py_ssize_t size
    if data is None:
        return put_varint(p, -1)
    size = PyBytes_GET_SIZE(data)
    p = put_varint(p, size)
    memcpy(p, PyBytes_AS_STRING(data), size)
    return p + size


def datagram_of_one(
    int flags, uint32_t feed, uint32_t partition, uint64_t session, int64_t previous, int64_t sequence, int64_t timestamp_ms,
    key, value, Py_ssize_t room,
):
    """See `headrace.multicast.feed.short_way.datagram_of_one`."""
    cdef Py_ssize_t key_size = -1, value_size = -1, body, size
    cdef uint8_t* p
    if key is not None:
        if not PyBytes_CheckExact(key):
            raise TypeError("a key is bytes or None")
        key_size = PyBytes_GET_SIZE(key)
    if value is not None:
        if not PyBytes_CheckExact(value):
            raise TypeError("a value is bytes or None")
        value_size = PyBytes_GET_SIZE(value)
    # attributes, time, offset, key, value, number of headers
    body = 3 + varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0) + 1
    size = varint_size(body) + body
    if size > room:
        return None
    datagram = PyBytes_FromStringAndSize(NULL, HEADER_SIZE + size)
    p = <uint8_t*>PyBytes_AS_STRING(datagram)
    memcpy(p, START, 4)
    p[8] = 0
    p[9] = <uint8_t>flags
    put16(p + 10, 1)
    put32(p + 12, 1)
    put32(p + 16, feed)
    put32(p + 20, partition)
    put64(p + 24, session)
    put64(p + 32, <uint64_t>previous)
    put64(p + 40, <uint64_t>sequence)
    put64(p + 48, <uint64_t>timestamp_ms)
    p = put_varint(p + HEADER_SIZE, body)
    p[0] = p[1] = p[2] = 0
    p = put_bytes(p + 3, key)
    p = put_bytes(p, value)
    p[0] = 0
    p = <uint8_t*>PyBytes_AS_STRING(datagram)
    put32(p + 4, crc32c(0, p + COVERED, HEADER_SIZE + size - COVERED))
    return datagram


cdef inline bint take_varint(const uint8_t** at, const uint8_t* end, int64_t* value) noexcept nogil:
    """At most five bytes: an int32, as in a record."""
    cdef uint64_t found = 0
    cdef int shift = 0
    cdef uint8_t byte
    while at[0] < end and shift < 35:
        byte = at[0][0]
        at[0] += 1
        found |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            value[0] = <int64_t>(found >> 1) ^ -<int64_t>(found & 1)
            return True
        shift += 7
    return False


cdef inline object take_bytes(const uint8_t** at, const uint8_t* end, bint* sound):
    cdef int64_t size = 0
    if not take_varint(at, end, &size) or size < -1 or size > end - at[0]:
        sound[0] = False
        return None
    if size < 0:
        return None
    data = PyBytes_FromStringAndSize(<const char*>at[0], size)
    at[0] += size
    return data


def expected_event(data, dict streams):
    """See `headrace.multicast.feed.short_way.expected_event`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return expected(<const uint8_t*>view.buf, view.len, streams)
    finally:
        PyBuffer_Release(&view)


cdef object expected(const uint8_t* p, Py_ssize_t size, dict streams):
    cdef const uint8_t* at
    cdef const uint8_t* end = p + size
    cdef int64_t previous, first, body = 0, zero = 0
    cdef bint sound = True
    # kind 0, flags at most 1, count 1, span 1
    if (
        size <= HEADER_SIZE or memcmp(p, START, 4) or p[8] or p[9] > 1 or p[10] or p[11] != 1 or get32(p + 12) != 1
    ):
        return None
    stream = streams.get((get32(p + 16), get32(p + 20)))
    previous = <int64_t>get64(p + 32)
    first = <int64_t>get64(p + 40)
    if (
        stream is None or previous < 0 or previous > first or first == 0x7FFFFFFFFFFFFFFF
        or stream.session != get64(p + 24) or stream.expected != previous
        or crc32c(0, p + COVERED, size - COVERED) != get32(p + 4)
    ):
        return None
    at = p + HEADER_SIZE
    if not take_varint(&at, end, &body) or body != end - at or body < 6 or at[0] or at[1] or at[2]:
        return None  # what has attributes, or a time or a place of its own
    at += 3
    key = take_bytes(&at, end, &sound)
    if not sound:
        return None
    value = take_bytes(&at, end, &sound)
    if not sound or end - at != 1 or at[0]:  # headers
        return None
    return stream, (first, <int64_t>get64(p + 48), key, value, ())


cdef dict fields_of = {}  # of each kind, what sets its fields


def make(type kind, *values):
    """See `headrace.multicast.feed.short_way.make`."""
    cdef tuple fields = fields_of.get(kind)
    cdef Py_ssize_t i
    if fields is None:
        fields = fields_of[kind] = tuple([kind.__dict__[name] for name in kind.__slots__])
    if len(fields) != len(values):
        raise TypeError(f"{kind.__name__} has {len(fields)} fields")
    made = kind.__new__(kind)
    for i in range(len(fields)):
        field = fields[i]
        if (<PyTypeObject*>Py_TYPE(field)).tp_descr_set(field, made, values[i]) < 0:
            raise TypeError(f"{kind.__name__} can't be made like this")
    return made
