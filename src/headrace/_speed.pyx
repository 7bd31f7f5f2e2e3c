# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `headrace.record.pure`: the same functions, the same answers, the same exceptions.

Docstrings and the why are over there; here is only how. Buffers are taken by the simple buffer protocol; every read goes
through a `Cursor` that knows its end; every write through an `Out` that grows. The exceptions are imported last, so that
`headrace.record` may import this module while this module imports its errors.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.errno cimport EAGAIN, errno
from libc.stdint cimport INT64_MAX, INT64_MIN, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from "native.h":
    uint16_t get16 "hr_get16"(const uint8_t* p) noexcept nogil
    uint32_t get32 "hr_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hr_get64"(const uint8_t* p) noexcept nogil
    void put16 "hr_put16"(uint8_t* p, uint16_t v) noexcept nogil
    void put32 "hr_put32"(uint8_t* p, uint32_t v) noexcept nogil
    void put64 "hr_put64"(uint8_t* p, uint64_t v) noexcept nogil
    void native_init "hr_init"() noexcept nogil
    uint32_t crc_of "hr_crc32c"(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil
    uint32_t crc_soft "hr_crc_soft"(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

native_init()

cdef enum:  # as in pure
    HEADER_SIZE = 61
    SMALLEST_LENGTH = 14
    LENGTH_BASE = 12
    CRC_START = 21
    COMPRESSION = 0x07
    LOG_APPEND_TIME = 0x08
    TRANSACTIONAL = 0x10
    CONTROL = 0x20
    SMALLEST_RECORD = 7
    LONGEST_STRING = 0x7FFF
    INLINE_BYTES = 512
    STACK_BYTES = 1024


# Batches ---------------------------------------------------------------------------------------------------------------


def crc32c(data, uint32_t value=0):
    """CRC-32C (Castagnoli) of `data`, going on from `value`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    value = crc_of(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def crc32c_tables(data, uint32_t value=0):
    """The same without the processor's instruction, so that tests can reach it on any machine."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    value = crc_soft(value, <const uint8_t*>view.buf, view.len)
    PyBuffer_Release(&view)
    return value


def check_batch(buf, Py_ssize_t start, Py_ssize_t end):
    """See `headrace.record.pure.batches.check_batch`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or end > view.len or start > end:
            raise CorruptBatch("the range is outside the buffer")
        return checked(<const uint8_t*>view.buf + start, end - start)
    finally:
        PyBuffer_Release(&view)


cdef tuple checked(const uint8_t* p, Py_ssize_t size):
    if size > 16:
        if <int32_t>get32(p + 8) < SMALLEST_LENGTH or p[16] > 2:
            raise CorruptBatch("this is no batch")
        if p[16] < 2:
            raise UnsupportedMagic(f"message format v{p[16]} is not supported")
    if size < HEADER_SIZE:
        raise InconsistentBatch("shorter than a batch header")
    if <int32_t>get32(p + 8) != size - LENGTH_BASE:
        raise InconsistentBatch("the batch length does not match the bytes given")
    if crc_of(0, p + CRC_START, size - CRC_START) != get32(p + 17):
        raise CorruptBatch("wrong CRC")
    cdef int32_t delta = <int32_t>get32(p + 23)
    cdef int32_t count = <int32_t>get32(p + 57)
    if count <= 0:
        raise InconsistentBatch("no records")
    if delta != count - 1:
        raise InconsistentBatch("the last offset delta does not match the record count")
    return (
        <int16_t>get16(p + 21), delta, <int64_t>get64(p + 27), <int64_t>get64(p + 35),
        <int64_t>get64(p + 43), <int16_t>get16(p + 51), <int32_t>get32(p + 53), count,
    )


def stamp_batch(buf, Py_ssize_t start, int64_t base_offset, int32_t leader_epoch):
    """See `headrace.record.pure.batches.stamp_batch`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_WRITABLE)
    cdef bint fits = start >= 0 and view.len - start >= 16
    cdef uint8_t* p
    if fits:
        p = <uint8_t*>view.buf + start
        put64(p, <uint64_t>base_offset)
        put32(p + 12, <uint32_t>leader_epoch)
    PyBuffer_Release(&view)
    if not fits:
        raise CorruptBatch("the range is outside the buffer")


def stamp_append_time(buf, Py_ssize_t start, Py_ssize_t end, int64_t now_ms):
    """See `headrace.record.pure.batches.stamp_append_time`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_WRITABLE)
    cdef uint8_t* p
    try:
        if start < 0 or end > view.len or start > end:
            raise CorruptBatch("the range is outside the buffer")
        if end - start < HEADER_SIZE:
            raise InconsistentBatch("shorter than a batch header")
        p = <uint8_t*>view.buf + start
        p[22] |= LOG_APPEND_TIME
        put64(p + 35, <uint64_t>now_ms)
        put32(p + 17, crc_of(0, p + CRC_START, end - start - CRC_START))
    finally:
        PyBuffer_Release(&view)


def find_offset(buf, int64_t offset):
    """See `headrace.record.pure.batches.find_offset`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    cdef Py_ssize_t found = found_offset(<const uint8_t*>view.buf, view.len, offset)
    PyBuffer_Release(&view)
    return found


cdef Py_ssize_t found_offset(const uint8_t* p, Py_ssize_t size, int64_t offset) noexcept nogil:
    cdef Py_ssize_t pos = 0
    cdef int32_t batch_length, delta
    cdef int64_t base
    while size - pos >= HEADER_SIZE:
        base = <int64_t>get64(p + pos)
        batch_length = <int32_t>get32(p + pos + 8)
        delta = <int32_t>get32(p + pos + 23)
        if batch_length < HEADER_SIZE - LENGTH_BASE:
            return -1
        # A sum beyond 64 bits is larger, or smaller, than any offset.
        if delta >= 0:
            if base > INT64_MAX - delta or base + delta >= offset:
                return pos
        elif base >= INT64_MIN - delta and base + delta >= offset:
            return pos
        pos += <Py_ssize_t>batch_length + LENGTH_BASE
    return -1


def whole_batches(buf):
    """See `headrace.record.pure.batches.whole_batches`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    cdef const uint8_t* p = <const uint8_t*>view.buf
    cdef Py_ssize_t pos = 0
    cdef int32_t batch_length
    while view.len - pos >= HEADER_SIZE:
        batch_length = <int32_t>get32(p + pos + 8)
        if batch_length < HEADER_SIZE - LENGTH_BASE or batch_length > view.len - pos - LENGTH_BASE:
            break
        pos += <Py_ssize_t>batch_length + LENGTH_BASE
    PyBuffer_Release(&view)
    return pos


def scan_batches(buf, Py_ssize_t start, int64_t expected_offset, bint gaps=False):
    """See `headrace.record.pure.batches.scan_batches`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            raise CorruptBatch("the range is outside the buffer")
        return scanned(<const uint8_t*>view.buf, start, view.len, expected_offset, gaps)
    finally:
        PyBuffer_Release(&view)


cdef tuple scanned(const uint8_t* data, Py_ssize_t pos, Py_ssize_t size, int64_t expected, bint gaps):
    cdef list entries = []
    cdef const uint8_t* p
    cdef int32_t batch_length, delta
    cdef int64_t base
    cdef Py_ssize_t length
    while size - pos >= HEADER_SIZE:
        p = data + pos
        base = <int64_t>get64(p)
        batch_length = <int32_t>get32(p + 8)
        delta = <int32_t>get32(p + 23)
        if p[16] != 2 or batch_length < HEADER_SIZE - LENGTH_BASE or batch_length > size - pos - LENGTH_BASE:
            break
        if base != expected and expected != -1 and not (gaps and base > expected):
            break
        if base < 0 or delta < 0 or base > INT64_MAX - 1 - delta:
            break
        length = <Py_ssize_t>batch_length + LENGTH_BASE
        if crc_of(0, p + CRC_START, length - CRC_START) != get32(p + 17):
            break
        entries.append((pos, base, base + delta, <int64_t>get64(p + 35), length))
        expected = base + delta + 1
        pos += length
    return entries, pos


# What is written: bytes that grow, on the stack as long as they are few -------------------------------------------------


cdef struct Out:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    bint owned


cdef inline void begin(Out* out, uint8_t* stack, Py_ssize_t room) noexcept:
    out.data = stack
    out.size = 0
    out.room = room
    out.owned = False


cdef int grow(Out* out, Py_ssize_t more) except -1:
    cdef Py_ssize_t room = max(out.room * 2, out.size + more)
    cdef uint8_t* data
    if out.owned:
        data = <uint8_t*>PyMem_Realloc(out.data, room)
    else:
        data = <uint8_t*>PyMem_Malloc(room)
    if data == NULL:
        raise MemoryError()
    if not out.owned:
        memcpy(data, out.data, out.size)
    out.data = data
    out.room = room
    out.owned = True
    return 0


cdef inline uint8_t* more(Out* out, Py_ssize_t size) except NULL:
    """Where the next `size` bytes go."""
    if size > out.room - out.size:
        grow(out, size)
    cdef uint8_t* p = out.data + out.size
    out.size += size
    return p


cdef inline void release(Out* out) noexcept:
    if out.owned:
        PyMem_Free(out.data)
        out.owned = False


cdef inline int add8(Out* out, uint8_t v) except -1:
    more(out, 1)[0] = v
    return 0


cdef inline int add16(Out* out, int16_t v) except -1:
    put16(more(out, 2), <uint16_t>v)
    return 0


cdef inline int add32(Out* out, int32_t v) except -1:
    put32(more(out, 4), <uint32_t>v)
    return 0


cdef inline int add64(Out* out, int64_t v) except -1:
    put64(more(out, 8), <uint64_t>v)
    return 0


cdef inline int add_uvarint(Out* out, uint64_t v) except -1:
    while v >= 0x80:
        add8(out, <uint8_t>(v & 0x7F) | 0x80)
        v >>= 7
    return add8(out, <uint8_t>v)


cdef inline int add_varint(Out* out, int32_t v) except -1:
    return add_uvarint(out, (<uint32_t>v << 1) ^ (<uint32_t>0 - (<uint32_t>v >> 31)))


cdef inline int add_varlong(Out* out, int64_t v) except -1:
    return add_uvarint(out, (<uint64_t>v << 1) ^ (<uint64_t>0 - (<uint64_t>v >> 63)))


cdef inline int add_raw(Out* out, const void* data, Py_ssize_t size) except -1:
    if size:
        memcpy(more(out, size), data, size)
    return 0


cdef int add_content(Out* out, object content) except -1:
    """Any bytes-like object."""
    cdef Py_buffer view
    if PyBytes_CheckExact(content):
        return add_raw(out, PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        add_raw(out, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef int add_string(Out* out, str text, bint flexible) except -1:
    cdef Py_ssize_t size
    cdef const char* data = PyUnicode_AsUTF8AndSize(text, &size)
    if size > LONGEST_STRING:
        raise ValueError("a string is too long for the protocol")
    if flexible:
        add_uvarint(out, size + 1)
    else:
        add16(out, <int16_t>size)
    return add_raw(out, data, size)


cdef int add_topic(Out* out, object topic, bint by_id, bint flexible) except -1:
    if by_id:
        if not isinstance(topic, bytes) or len(<bytes>topic) != 16:
            raise ValueError("this version names topics by their 16-byte id")
        return add_raw(out, PyBytes_AS_STRING(topic), 16)
    if isinstance(topic, str):
        return add_string(out, topic, flexible)
    raise ValueError("this version names topics by their name")


cdef inline int add_length(Out* out, Py_ssize_t length, bint flexible) except -1:
    if length > 0x7FFFFFFF:
        raise OverflowError("too long for the protocol")
    if flexible:
        return add_uvarint(out, length + 1)
    return add32(out, <int32_t>length)


# Records ---------------------------------------------------------------------------------------------------------------


def encode_records(records):
    """See `headrace.record.pure.records.encode_records`."""
    cdef Out out
    cdef uint8_t[STACK_BYTES] stack
    begin(&out, stack, STACK_BYTES)
    try:
        for offset_delta, timestamp_delta, key, value, headers in records:
            add_record(&out, offset_delta, timestamp_delta, key, value, headers)
        return PyBytes_FromStringAndSize(<char*>out.data, out.size)
    finally:
        release(&out)


cdef int add_record(Out* out, int32_t offset_delta, int64_t timestamp_delta, key, value, headers) except -1:
    cdef Py_ssize_t start = out.size
    cdef Py_ssize_t length
    more(out, 5)  # the length comes first and is known last
    add8(out, 0)
    add_varlong(out, timestamp_delta)
    add_varint(out, offset_delta)
    add_bytes(out, key)
    add_bytes(out, value)
    add_varint(out, len(headers))
    for name, content in headers:
        add_bytes(out, (<str?>name).encode("utf-8", "surrogateescape"))
        add_bytes(out, content)
    length = out.size - start - 5
    if length > 0x7FFFFFFF:
        raise OverflowError("does not fit a varint")
    out.size = start
    add_varint(out, <int32_t>length)
    memmove(out.data + out.size, out.data + start + 5, length)
    out.size += length
    return 0


cdef int add_bytes(Out* out, content) except -1:
    cdef Py_buffer view
    if content is None:
        return add8(out, 1)
    if PyBytes_CheckExact(content):
        if PyBytes_GET_SIZE(content) > 0x7FFFFFFF:
            raise OverflowError("does not fit a varint")
        add_varint(out, <int32_t>PyBytes_GET_SIZE(content))
        return add_raw(out, PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
    PyObject_GetBuffer(content, &view, PyBUF_SIMPLE)
    try:
        if view.len > 0x7FFFFFFF:
            raise OverflowError("does not fit a varint")
        add_varint(out, <int32_t>view.len)
        add_raw(out, view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


def decode_records(payload, int64_t count, int64_t base_offset=0, int64_t base_timestamp=0):
    """See `headrace.record.pure.records.decode_records`."""
    cdef Py_buffer view
    PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
    try:
        return decoded(<const uint8_t*>view.buf, view.len, count, base_offset, base_timestamp)
    finally:
        PyBuffer_Release(&view)


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end
    bint flexible
    int failed  # why the readers below, which raise nothing themselves, had to give up


cdef enum:
    CUT = 1
    TOO_LONG = 2


cdef inline uint32_t read_uvarint(Cursor* c) noexcept nogil:
    cdef uint32_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 35:
        if c.pos >= c.end:
            c.failed = CUT
            return 0
        byte = c.data[c.pos]
        c.pos += 1
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    c.failed = TOO_LONG
    return 0


cdef inline int32_t read_varint(Cursor* c) noexcept nogil:
    cdef uint32_t value = read_uvarint(c)
    return <int32_t>((value >> 1) ^ (<uint32_t>0 - (value & 1)))


cdef inline int64_t read_varlong(Cursor* c) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 70:
        if c.pos >= c.end:
            c.failed = CUT
            return 0
        byte = c.data[c.pos]
        c.pos += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t>((value >> 1) ^ (<uint64_t>0 - (value & 1)))
        shift += 7
    c.failed = TOO_LONG
    return 0


cdef inline object read_bytes(Cursor* c, Py_ssize_t record_end):
    cdef int32_t length = read_varint(c)
    if length < 0 or c.failed:
        return None
    if length > record_end - c.pos:
        c.failed = CUT
        return None
    c.pos += length
    return PyBytes_FromStringAndSize(<const char*>c.data + c.pos - length, length)


cdef tuple read_headers(Cursor* c, Py_ssize_t record_end, int32_t count):
    cdef int32_t length, i
    cdef list headers = []
    if count < 0 or count > record_end - c.pos:
        c.failed = CUT
        return ()
    for i in range(count):
        length = read_varint(c)
        if c.failed or length < 0 or length > record_end - c.pos:
            c.failed = CUT
            return ()
        name = PyUnicode_DecodeUTF8(<const char*>c.data + c.pos, length, "surrogateescape")
        c.pos += length
        content = read_bytes(c, record_end)
        if c.failed:
            return ()
        headers.append((name, content))
    return tuple(headers)


cdef list decoded(const uint8_t* data, Py_ssize_t size, int64_t count, int64_t base_offset, int64_t base_timestamp):
    if not 0 <= count <= size // SMALLEST_RECORD:
        raise CorruptBatch("the record count does not fit the records")
    cdef Cursor c
    c.data = data
    c.pos = 0
    c.end = size
    c.failed = 0
    cdef list records = []
    cdef int64_t i, offset, timestamp
    cdef int32_t length, header_count
    cdef Py_ssize_t record_end
    for i in range(count):
        length = read_varint(&c)
        if c.failed or length < 0 or length > size - c.pos:
            raise CorruptBatch("malformed record")
        record_end = c.pos + length
        c.pos += 1  # attributes
        timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>read_varlong(&c))
        offset = <int64_t>(<uint64_t>base_offset + <uint64_t>(<int64_t>read_varint(&c)))
        key = read_bytes(&c, record_end)
        value = read_bytes(&c, record_end)
        header_count = read_varint(&c)
        headers = read_headers(&c, record_end, header_count) if header_count and not c.failed else ()
        if c.failed or c.pos != record_end:
            raise CorruptBatch("malformed record")
        records.append((offset, timestamp, key, value, headers))
    if c.pos != size:
        raise CorruptBatch("bytes after the last record")
    return records


def check_records(batch, int32_t count):
    """See `headrace.record.pure.records.check_records`."""
    cdef Py_buffer view
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    cdef bint sound = view.len >= HEADER_SIZE and are_sound(<const uint8_t*>view.buf, view.len, count)
    PyBuffer_Release(&view)
    if not sound:
        raise InconsistentBatch("the records do not fill the batch in order")


cdef bint are_sound(const uint8_t* data, Py_ssize_t size, int32_t count) noexcept nogil:
    cdef Cursor c
    c.data = data
    c.pos = HEADER_SIZE
    c.end = size
    c.failed = 0
    cdef int32_t i, length, header_count
    cdef Py_ssize_t record_end
    for i in range(count):
        length = read_varint(&c)
        if c.failed or length < 0 or length > size - c.pos:
            return False
        record_end = c.pos + length
        c.pos += 1  # attributes
        read_varlong(&c)
        if read_varint(&c) != i:
            return False
        skip_bytes(&c, record_end, True)
        skip_bytes(&c, record_end, True)
        header_count = read_varint(&c)
        if header_count < 0 or header_count > record_end - c.pos:
            return False
        while header_count and not c.failed:
            skip_bytes(&c, record_end, False)
            skip_bytes(&c, record_end, True)
            header_count -= 1
        if c.failed or c.pos != record_end:
            return False
    return c.pos == size


cdef inline void skip_bytes(Cursor* c, Py_ssize_t record_end, bint nullable) noexcept nogil:
    cdef int32_t length = read_varint(c)
    if length < 0 and nullable:
        return
    if length < 0 or length > record_end - c.pos:
        c.failed = CUT
    else:
        c.pos += length


# What is read of a request: a cursor that raises -----------------------------------------------------------------------


cdef int start_cursor(Cursor* c, Py_buffer* view, Py_ssize_t start, Py_ssize_t end, bint flexible) except -1:
    if start < 0 or end > view.len or start > end:
        raise MalformedRequest("the range is outside the buffer")
    c.data = <const uint8_t*>view.buf
    c.pos = start
    c.end = end
    c.flexible = flexible
    c.failed = 0
    return 0


cdef inline const uint8_t* take(Cursor* c, int64_t size) except NULL:
    if size > c.end - c.pos:
        raise MalformedRequest("the request ends too early")
    c.pos += size
    return c.data + c.pos - size


cdef inline int16_t take16(Cursor* c) except? -1:
    return <int16_t>get16(take(c, 2))


cdef inline int32_t take32(Cursor* c) except? -1:
    return <int32_t>get32(take(c, 4))


cdef inline int64_t take64(Cursor* c) except? -1:
    return <int64_t>get64(take(c, 8))


cdef inline int64_t take_uvarint(Cursor* c) except -1:
    cdef uint32_t value = read_uvarint(c)
    if c.failed == CUT:
        raise MalformedRequest("the request ends too early")
    if c.failed:
        raise MalformedRequest("a varint is too long")
    return value


cdef object take_nullable_string(Cursor* c):
    cdef int64_t length = take_uvarint(c) - 1 if c.flexible else take16(c)
    if length < 0:
        return None
    if length > LONGEST_STRING:
        raise MalformedRequest("a string is too long")
    cdef const uint8_t* p = take(c, length)
    try:
        return PyUnicode_DecodeUTF8(<const char*>p, length, NULL)
    except UnicodeDecodeError:
        raise MalformedRequest("a string is not UTF-8") from None


cdef object take_topic(Cursor* c, bint by_id):
    if by_id:
        return PyBytes_FromStringAndSize(<const char*>take(c, 16), 16)
    return take_string(c)


cdef str take_string(Cursor* c):
    text = take_nullable_string(c)
    if text is None:
        raise MalformedRequest("a field is null that must not be")
    return text


cdef int64_t take_array(Cursor* c) except -1:
    cdef int64_t length = take_uvarint(c) - 1 if c.flexible else take32(c)
    if length < 0:
        raise MalformedRequest("a field is null that must not be")
    if length > c.end - c.pos:
        raise MalformedRequest("the request ends too early")
    return length


cdef inline int skip_tags(Cursor* c) except -1:
    cdef int64_t i, count
    if c.flexible:
        count = take_uvarint(c)
        for i in range(count):
            take_uvarint(c)
            take(c, take_uvarint(c))
    return 0


# Produce ---------------------------------------------------------------------------------------------------------------


def parse_produce(buf, Py_ssize_t start, Py_ssize_t end, int version):
    """See `headrace.record.pure.produce.parse_produce`."""
    if not 3 <= version <= 13:
        raise MalformedRequest(f"Produce has no version {version}")
    cdef Py_buffer view
    cdef Cursor c
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        start_cursor(&c, &view, start, end, version >= 9)
        return parsed_produce(&c, version)
    finally:
        PyBuffer_Release(&view)


cdef tuple parsed_produce(Cursor* c, int version):
    cdef list topics = []
    cdef list partitions
    cdef int64_t i, j, topic_count, partition_count, length
    cdef int32_t index
    transactional_id = take_nullable_string(c)
    cdef int16_t acks = take16(c)
    cdef int32_t timeout_ms = take32(c)
    topic_count = take_array(c)
    for i in range(topic_count):
        topic = take_topic(c, version >= 13)
        partitions = []
        partition_count = take_array(c)
        for j in range(partition_count):
            index = take32(c)
            length = take_uvarint(c) - 1 if c.flexible else take32(c)
            if length < 0:
                skip_tags(c)
                partitions.append((index, -1, -1))
            else:
                take(c, length)
                records_end = c.pos
                skip_tags(c)
                partitions.append((index, records_end - length, records_end))
        skip_tags(c)
        topics.append((topic, partitions))
    skip_tags(c)
    return transactional_id, acks, timeout_ms, topics


def parse_sole_batch(buf, Py_ssize_t start, Py_ssize_t end):
    """See `headrace.record.pure.produce.parse_sole_batch`."""
    cdef Py_buffer view
    cdef Cursor c
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or end > view.len or end - start < 10:
            return None
        c.data = <const uint8_t*>view.buf
        c.pos = start
        c.end = end
        c.failed = 0
        return sole_batch(&c)
    finally:
        PyBuffer_Release(&view)


cdef inline int64_t sole_length(Cursor* c, bint wide) noexcept nogil:
    """Of a string, or of an array or bytes (`wide`); -1 for null, and where the request is cut."""
    if c.flexible:
        return <int64_t>read_uvarint(c) - 1
    c.pos += 4 if wide else 2
    if c.pos > c.end:
        c.failed = CUT
        return -1
    return max(-1, <int32_t>get32(c.data + c.pos - 4) if wide else <int16_t>get16(c.data + c.pos - 2))


cdef object sole_batch(Cursor* c):
    cdef const uint8_t* p = c.data + c.pos
    cdef int16_t version = <int16_t>get16(p + 2)
    if get16(p) != 0 or not 3 <= version <= 13:
        return None
    cdef int32_t correlation_id = <int32_t>get32(p + 4)
    cdef int64_t length = <int16_t>get16(p + 8)
    cdef int tags = 1 if version >= 9 else 0
    c.flexible = tags
    c.pos += 10 + max(<int64_t>0, length)
    if tags:
        c.pos += 1
        if c.pos > c.end or c.data[c.pos - 1]:
            return None
    if sole_length(c, False) != -1 or c.failed or c.end - c.pos < 6:
        return None
    cdef int16_t acks = <int16_t>get16(c.data + c.pos)
    c.pos += 6
    if sole_length(c, True) != 1:
        return None
    length = 16 if version >= 13 else sole_length(c, False)
    cdef const uint8_t* name = c.data + c.pos
    if length < 0 or length > LONGEST_STRING or length > c.end - c.pos:
        return None
    cdef Py_ssize_t name_length = length
    c.pos += length
    if sole_length(c, True) != 1 or c.end - c.pos < 4:
        return None
    cdef int32_t index = <int32_t>get32(c.data + c.pos)
    c.pos += 4
    length = sole_length(c, True)
    if length < HEADER_SIZE or length != c.end - c.pos - 3 * tags:
        return None
    p = c.data + c.pos
    cdef Py_ssize_t first = c.pos, last = c.pos + length
    if tags and (c.data[last] or c.data[last + 1] or c.data[last + 2]):
        return None
    cdef int16_t attributes = <int16_t>get16(p + 21)
    cdef int32_t count = <int32_t>get32(p + 57)
    if (
        p[16] != 2 or <int32_t>get32(p + 8) != length - LENGTH_BASE or count <= 0
        or <int32_t>get32(p + 23) != count - 1 or attributes & (TRANSACTIONAL | CONTROL)
        or attributes & COMPRESSION > (3 if version < 7 else 4)
        or crc_of(0, p + CRC_START, length - CRC_START) != get32(p + 17)
        or not (attributes & COMPRESSION or are_sound(p, length, count))
    ):
        return None
    if version >= 13:
        topic = PyBytes_FromStringAndSize(<const char*>name, 16)
    else:
        try:
            topic = PyUnicode_DecodeUTF8(<const char*>name, name_length, NULL)
        except UnicodeDecodeError:
            return None
    return version, correlation_id, acks, topic, index, first, last, (
        attributes, count - 1, <int64_t>get64(p + 27), <int64_t>get64(p + 35),
        <int64_t>get64(p + 43), <int16_t>get16(p + 51), <int32_t>get32(p + 53), count,
    )


def encode_sole_answer(int version, int32_t correlation_id, topic, int32_t index, int64_t base_offset,
                       int64_t append_time_ms, int64_t log_start_offset):
    """See `headrace.record.pure.produce.encode_sole_answer`."""
    if not 3 <= version <= 13:
        raise ValueError(f"Produce has no version {version}")
    cdef bint flexible = version >= 9
    cdef Out out
    cdef uint8_t[STACK_BYTES] stack
    begin(&out, stack, STACK_BYTES)
    try:
        begin_produce_response(&out, correlation_id, 1, flexible)
        add_topic(&out, topic, version >= 13, flexible)
        add_length(&out, 1, flexible)
        add_produced(&out, version, index, 0, base_offset, append_time_ms, log_start_offset, None, ())
        if flexible:
            add8(&out, 0)
        return end_produce_response(&out, 0, flexible)
    finally:
        release(&out)


def encode_produce_response(int version, int32_t correlation_id, topics, int32_t throttle_ms):
    """See `headrace.record.pure.produce.encode_produce_response`."""
    if not 3 <= version <= 13:
        raise ValueError(f"Produce has no version {version}")
    cdef bint flexible = version >= 9
    cdef Out out
    cdef uint8_t[STACK_BYTES] stack
    begin(&out, stack, STACK_BYTES)
    try:
        begin_produce_response(&out, correlation_id, len(topics), flexible)
        for topic, partitions in topics:
            add_topic(&out, topic, version >= 13, flexible)
            add_length(&out, len(partitions), flexible)
            for index, error, base_offset, append_time_ms, log_start_offset, message, faults in partitions:
                add_produced(&out, version, index, error, base_offset, append_time_ms, log_start_offset, message, faults)
            if flexible:
                add8(&out, 0)
        return end_produce_response(&out, throttle_ms, flexible)
    finally:
        release(&out)


cdef int begin_produce_response(Out* out, int32_t correlation_id, Py_ssize_t topics, bint flexible) except -1:
    add32(out, 0)
    add32(out, correlation_id)
    if flexible:
        add8(out, 0)
    return add_length(out, topics, flexible)


cdef int add_produced(Out* out, int version, int32_t index, int16_t error, int64_t base_offset, int64_t append_time_ms,
                      int64_t log_start_offset, message, faults) except -1:
    cdef bint flexible = version >= 9
    add32(out, index)
    add16(out, error)
    add64(out, base_offset)
    add64(out, append_time_ms)
    if version >= 5:
        add64(out, log_start_offset)
    if version >= 8:
        add_length(out, len(faults), flexible)
        for place, fault in faults:
            add32(out, place)
            add_string(out, fault, flexible)
            if flexible:
                add8(out, 0)
        if message is not None:
            add_string(out, message, flexible)
        elif flexible:
            add8(out, 0)
        else:
            add16(out, -1)
    if flexible:
        add8(out, 0)
    return 0


cdef bytes end_produce_response(Out* out, int32_t throttle_ms, bint flexible):
    add32(out, throttle_ms)
    if flexible:
        add8(out, 0)
    put32(out.data, <uint32_t>(out.size - 4))
    return PyBytes_FromStringAndSize(<char*>out.data, out.size)


# Fetch -----------------------------------------------------------------------------------------------------------------


def parse_fetch(buf, Py_ssize_t start, Py_ssize_t end, int version):
    """See `headrace.record.pure.fetch.parse_fetch`."""
    if not 4 <= version <= 18:
        raise MalformedRequest(f"Fetch has no version {version}")
    cdef Py_buffer view
    cdef Cursor c
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    try:
        start_cursor(&c, &view, start, end, version >= 12)
        return parsed_fetch(&c, version)
    finally:
        PyBuffer_Release(&view)


cdef tuple parsed_fetch(Cursor* c, int version):
    cdef list topics = [], forgotten = []
    cdef list partitions
    cdef int64_t i, j, topic_count, partition_count
    cdef int32_t session_id = 0, session_epoch = -1, index, leader_epoch = -1, last_epoch = -1
    cdef int64_t fetch_offset, log_start = -1
    if version <= 14:
        take32(c)
    cdef int32_t max_wait_ms = take32(c)
    cdef int32_t min_bytes = take32(c)
    cdef int32_t max_bytes = take32(c)
    cdef int8_t isolation_level = <int8_t>take(c, 1)[0]
    if version >= 7:
        session_id = take32(c)
        session_epoch = take32(c)
    topic_count = take_array(c)
    for i in range(topic_count):
        topic = take_topic(c, version >= 13)
        partitions = []
        partition_count = take_array(c)
        for j in range(partition_count):
            index = take32(c)
            if version >= 9:
                leader_epoch = take32(c)
            fetch_offset = take64(c)
            if version >= 12:
                last_epoch = take32(c)
            if version >= 5:
                log_start = take64(c)
            partition_max_bytes = take32(c)
            skip_tags(c)
            partitions.append((index, leader_epoch, fetch_offset, last_epoch, log_start, partition_max_bytes))
        skip_tags(c)
        topics.append((topic, partitions))
    if version >= 7:
        topic_count = take_array(c)
        for i in range(topic_count):
            topic = take_topic(c, version >= 13)
            partitions = []
            partition_count = take_array(c)
            for j in range(partition_count):
                partitions.append(take32(c))
            skip_tags(c)
            forgotten.append((topic, partitions))
    if version >= 11:
        take_string(c)
    skip_tags(c)
    return max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten


def fetch_partition_header(int version, int32_t index, int16_t error, int64_t high_watermark,
                           int64_t last_stable_offset, int64_t log_start_offset, aborted, Py_ssize_t records_len):
    """See `headrace.record.pure.fetch.fetch_partition_header`."""
    cdef Out out
    cdef uint8_t[STACK_BYTES] stack
    begin(&out, stack, STACK_BYTES)
    try:
        add_partition_header(
            &out, version, index, error, high_watermark, last_stable_offset, log_start_offset, aborted, records_len
        )
        return PyBytes_FromStringAndSize(<char*>out.data, out.size)
    finally:
        release(&out)


cdef int add_partition_header(Out* out, int version, int32_t index, int16_t error, int64_t high_watermark,
                              int64_t last_stable_offset, int64_t log_start_offset, aborted,
                              Py_ssize_t records_len) except -1:
    cdef bint flexible = version >= 12
    add32(out, index)
    add16(out, error)
    add64(out, high_watermark)
    add64(out, last_stable_offset)
    if version >= 5:
        add64(out, log_start_offset)
    if aborted is None:
        add_length(out, -1, flexible)
    else:
        add_length(out, len(aborted), flexible)
        for producer_id, first_offset in aborted:
            add64(out, producer_id)
            add64(out, first_offset)
            if flexible:
                add8(out, 0)
    if version >= 11:
        add32(out, -1)
    return add_length(out, records_len, flexible)


def encode_fetch_response(int version, int32_t correlation_id, int16_t error, int32_t session_id,
                          int32_t throttle_ms, topics):
    """See `headrace.record.pure.fetch.encode_fetch_response`."""
    if not 4 <= version <= 18:
        raise ValueError(f"Fetch has no version {version}")
    cdef Out out
    cdef uint8_t[STACK_BYTES] stack
    begin(&out, stack, STACK_BYTES)
    try:
        return fetch_pieces(&out, version, correlation_id, error, session_id, throttle_ms, topics)
    finally:
        release(&out)


cdef list fetch_pieces(Out* out, int version, int32_t correlation_id, int16_t error, int32_t session_id,
                       int32_t throttle_ms, topics):
    cdef bint flexible = version >= 12
    cdef list pieces = []
    cdef Py_ssize_t total = 0, length
    add32(out, 0)
    add32(out, correlation_id)
    if flexible:
        add8(out, 0)
    add32(out, throttle_ms)
    if version >= 7:
        add16(out, error)
        add32(out, session_id)
    add_length(out, len(topics), flexible)
    for topic, partitions in topics:
        add_topic(out, topic, version >= 13, flexible)
        add_length(out, len(partitions), flexible)
        for index, code, high_watermark, stable, log_start, aborted, records in partitions:
            length = -1 if records is None else len(records)
            add_partition_header(out, version, index, code, high_watermark, stable, log_start, aborted, length)
            if length > INLINE_BYTES:
                total += out.size + length
                pieces.append(PyBytes_FromStringAndSize(<char*>out.data, out.size))
                pieces.append(records)
                out.size = 0
            elif length > 0:
                add_content(out, records)
            if flexible:
                add8(out, 0)
        if flexible:
            add8(out, 0)
    if flexible:
        add8(out, 0)
    if out.size:
        total += out.size
        pieces.append(PyBytes_FromStringAndSize(<char*>out.data, out.size))
    if total - 4 > 0x7FFFFFFF:
        raise OverflowError("too long for the protocol")
    # Nobody else has seen this object yet, so its first four bytes may still be written.
    put32(<uint8_t*>PyBytes_AS_STRING(pieces[0]), <uint32_t>(total - 4))
    return pieces


from headrace.record.errors import CorruptBatch, InconsistentBatch, MalformedRequest, UnsupportedMagic  # noqa: E402


# Reading a file ---------------------------------------------------------------------------------------------------------

cdef extern from *:
    """
    #include <errno.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #ifdef __linux__
    /* One read that does not wait for the device: what it got, or -1 and errno. */
    static ssize_t read_without_waiting(int fd, void *into, size_t size, int64_t position) {
        struct iovec place = {into, size};
        return preadv2(fd, &place, 1, (off_t)position, RWF_NOWAIT);
    }
    #else
    static ssize_t read_without_waiting(int fd, void *into, size_t size, int64_t position) {
        errno = EOPNOTSUPP;
        return -1;
    }
    #endif
    """
    Py_ssize_t read_without_waiting(int fd, void* into, size_t size, int64_t position) nogil


def read_nowait(int fd, int64_t position, Py_ssize_t size):
    """See `headrace.disk.real.read_nowait`; this one needs no zeroed buffer."""
    cdef bytes data = PyBytes_FromStringAndSize(NULL, size)
    cdef void* into = PyBytes_AS_STRING(data)
    cdef Py_ssize_t got
    with nogil:
        got = read_without_waiting(fd, into, size, position)
    if got == size:
        return data
    if got < 0 and errno != EAGAIN:
        raise OSError(errno, "read without waiting")
    return None
