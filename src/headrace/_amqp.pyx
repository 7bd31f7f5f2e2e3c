# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The compiled twin of `headrace.record.amqp.pure`: the same functions, the same answers, the same exceptions.

Docstrings and the why are over there; here is only how. A run's records grow in memory of our own and become bytes when
the run ends; what a run must be compared with is kept as positions in the buffer that is scanned. Deliveries are written
into a bytes object that is large enough for any records of their length, and cut afterwards. The imports come last, so
that `headrace.record.amqp` may import this module while this module imports its errors.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.ref cimport Py_XDECREF, PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

cdef extern from "Python.h":
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* content, Py_ssize_t size) except NULL
    char* bytes_of "PyBytes_AS_STRING"(PyObject* made)
    int _PyBytes_Resize(PyObject** made, Py_ssize_t size) except -1
    bytearray new_bytearray "PyByteArray_FromStringAndSize"(const char* content, Py_ssize_t size)

cdef extern from *:
    """
    #include <stdint.h>

    /* Shifts rather than byte swaps: right on any byte order, and compilers make one instruction of them. */
    static inline uint16_t hra_get16(const uint8_t *p) { return (uint16_t)((p[0] << 8) | p[1]); }
    static inline uint32_t hra_get32(const uint8_t *p) {
        return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | (uint32_t)p[3];
    }
    static inline uint64_t hra_get64(const uint8_t *p) {
        return ((uint64_t)hra_get32(p) << 32) | (uint64_t)hra_get32(p + 4);
    }
    static inline void hra_put16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
    static inline void hra_put32(uint8_t *p, uint32_t v) {
        p[0] = (uint8_t)(v >> 24); p[1] = (uint8_t)(v >> 16); p[2] = (uint8_t)(v >> 8); p[3] = (uint8_t)v;
    }
    static inline void hra_put64(uint8_t *p, uint64_t v) {
        hra_put32(p, (uint32_t)(v >> 32)); hra_put32(p + 4, (uint32_t)v);
    }
    """
    uint16_t get16 "hra_get16"(const uint8_t* p) noexcept nogil
    uint32_t get32 "hra_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hra_get64"(const uint8_t* p) noexcept nogil
    void put16 "hra_put16"(uint8_t* p, uint16_t v) noexcept nogil
    void put32 "hra_put32"(uint8_t* p, uint32_t v) noexcept nogil
    void put64 "hra_put64"(uint8_t* p, uint64_t v) noexcept nogil

cdef enum:  # as in `events` and `pure`; a test holds them against each other
    PUBLISH = 1
    ACK = 2
    FRAME = 3
    RUN_BYTES = 1048576 - 61
    RUN_MESSAGES = 4096
    WAIT_BYTES = 262144
    WAIT_FRAMES = 64
    LARGEST_BODY = 1073741824
    FRAME_END = 0xCE
    PUBLISH_METHOD = 0x003C0028
    ACK_METHOD = 0x003C0050
    DELIVER_METHOD = 0x003C003C
    ACK_SIZE = 13
    BASIC = 60
    DECISIVE = 0x2B10
    UNUSED = 3
    EXCHANGE_HEADER_SIZE = 15
    PROPERTIES_HEADER_SIZE = 16
    LONGEST_TEXT = 255
    HEADER_SIZE = 61
    LENGTH_BASE = 12
    CRC_START = 21
    LOG_APPEND_TIME = 0x08
    COMPRESSED_OR_CONTROL = 0x27
    AROUND_A_MESSAGE = 53  # a deliver method and a content header without their texts, and one body frame's edges
    INCOMPLETE = 0
    FOREIGN = -1
    MALFORMED = -1
    NOT_A_MESSAGE = -2

cdef const uint8_t* EXCHANGE_HEADER = b"\x04\x1aamqp.exchange"  # two headers; the first one's name
cdef const uint8_t* PROPERTIES_HEADER = b"\x1eamqp.properties"
cdef int[14] SIZES = [0, 0, -1, 1, 1, 0, 0, 0, 0, 8, 0, 0, 0, 0]


def limits():
    """The constants that both twins must agree on."""
    return (PUBLISH, ACK, FRAME, RUN_BYTES, RUN_MESSAGES, WAIT_BYTES, WAIT_FRAMES, LARGEST_BODY)


# Varints ---------------------------------------------------------------------------------------------------------------


cdef inline int varint_size(uint32_t length) noexcept nogil:
    """Of a length, which is at most 2^31 - 1."""
    if length < 1 << 6:
        return 1
    if length < 1 << 13:
        return 2
    if length < 1 << 20:
        return 3
    return 4 if length < 1 << 27 else 5


cdef inline uint8_t* put_length(uint8_t* p, uint32_t length) noexcept nogil:
    cdef uint32_t rest = length << 1
    while rest >= 0x80:
        p[0] = <uint8_t>(rest | 0x80)
        p += 1
        rest >>= 7
    p[0] = <uint8_t>rest
    return p + 1


cdef inline const uint8_t* get_varint(const uint8_t* p, const uint8_t* end, int32_t* value) noexcept nogil:
    """The position after it; NULL if it is cut short or too long."""
    cdef uint32_t raw = 0
    cdef int shift = 0
    while p < end and shift < 35:
        raw |= <uint32_t>(p[0] & 0x7F) << shift
        if p[0] < 0x80:
            value[0] = <int32_t>(raw >> 1) ^ -<int32_t>(raw & 1)
            return p + 1
        p += 1
        shift += 7
    return NULL


cdef inline const uint8_t* past_varlong(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int size = 0
    while p < end and size < 10:
        if p[0] < 0x80:
            return p + 1
        p += 1
        size += 1
    return NULL


# Scanning --------------------------------------------------------------------------------------------------------------


cdef struct Run:
    Py_ssize_t count            # 0: there is no run
    uint64_t body_bytes
    Py_ssize_t method           # where its first method frame is, and how long
    Py_ssize_t method_size
    uint16_t channel
    Py_ssize_t exchange
    Py_ssize_t key
    uint8_t exchange_size
    uint8_t key_size
    bint decisive
    bint persistent
    Py_ssize_t first_properties
    Py_ssize_t first_properties_size
    Py_ssize_t properties       # of the last message
    Py_ssize_t properties_size
    uint8_t* records
    Py_ssize_t size
    Py_ssize_t room


cdef struct Content:
    Py_ssize_t properties
    Py_ssize_t properties_size
    Py_ssize_t body             # where the first body frame is
    uint32_t body_size
    Py_ssize_t after            # or INCOMPLETE or FOREIGN


def scan(buffer, Py_ssize_t start, int64_t frame_max, list out not None):
    """See `headrace.record.amqp.pure.scanning.scan`."""
    cdef Py_buffer view
    cdef Run run
    memset(&run, 0, sizeof(Run))
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= view.len:
            raise ValueError("the start is outside the buffer")
        return scanned(<const uint8_t*>view.buf, start, view.len, frame_max, out, &run)
    finally:
        PyBuffer_Release(&view)
        PyMem_Free(run.records)


cdef Py_ssize_t scanned(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, int64_t frame_max, list out,
                        Run* run) except -1:
    cdef int64_t limit = frame_max if frame_max else 0xFFFFFFFF
    cdef Content content
    cdef uint8_t frame_type
    cdef uint16_t channel
    cdef uint32_t size, method
    cdef Py_ssize_t frame_end
    cdef bint publish
    while end - position >= 7:
        frame_type = data[position]
        channel = get16(data + position + 1)
        size = get32(data + position + 3)
        if size > limit:
            close(data, run, out)
            raise frame_too_large(frame_type, size, frame_max)
        if size >= end - position - 7:
            break
        frame_end = position + 7 + size
        if data[frame_end] != FRAME_END:
            close(data, run, out)
            raise bad_frame_end(frame_type, piece(data, position + 7, frame_end), data[frame_end])
        method = get32(data + position + 7) if frame_type == 1 and channel and size >= 4 else 0
        if method == PUBLISH_METHOD:
            if run.count and run.method_size == frame_end + 1 - position and not memcmp(
                data + run.method, data + position, run.method_size
            ):
                publish = True
            else:
                close(data, run, out)
                publish = begin(data, position, frame_end + 1, channel, run)
            if publish:
                find_content(data, frame_end + 1, end, channel, limit, &content)
                if content.after == INCOMPLETE:
                    if end - position < WAIT_BYTES:
                        break
                elif content.after > 0 and take(data, run, &content, out):
                    position = content.after
                    continue
        close(data, run, out)
        if method == ACK_METHOD and size == ACK_SIZE:
            position = acks(data, position, end, channel, out)
            continue
        out.append((FRAME, frame_type, channel, piece(data, position + 7, frame_end)))
        position = frame_end + 1
    close(data, run, out)
    return position


cdef inline bytes piece(const uint8_t* data, Py_ssize_t start, Py_ssize_t end):
    return PyBytes_FromStringAndSize(<const char*>data + start, end - start)


cdef int close(const uint8_t* data, Run* run, list out) except -1:
    """Hands the run out, if there is one."""
    if not run.count:
        return 0
    out.append((
        PUBLISH,
        run.channel,
        piece(data, run.method + 11, run.method + run.method_size - 1),
        piece(data, run.first_properties, run.first_properties + run.first_properties_size),
        PyBytes_FromStringAndSize(<char*>run.records, run.size),
        run.count,
        run.body_bytes,
    ))
    run.count = 0
    return 0


cdef bint begin(const uint8_t* data, Py_ssize_t start, Py_ssize_t end, uint16_t channel, Run* run) noexcept:
    """Whether the method frame at `start` is a well-formed basic.publish; if so the run, still empty, is one for it."""
    cdef const uint8_t* arguments = data + start + 11
    cdef Py_ssize_t size = end - 1 - start - 11
    if size < 5:
        return False
    cdef Py_ssize_t key_at = 3 + arguments[2]
    if key_at >= size or key_at + 1 + arguments[key_at] + 1 != size:
        return False
    run.method = start
    run.method_size = end - start
    run.channel = channel
    run.exchange = start + 14
    run.exchange_size = arguments[2]
    run.key = start + 11 + key_at + 1
    run.key_size = arguments[key_at]
    return True


cdef Py_ssize_t acks(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, uint16_t channel, list out) except -1:
    cdef const uint8_t* same = data + position
    cdef uint64_t first = get64(same + 11), last = first
    cdef bint multiple = same[19] & 1
    cdef const uint8_t* p
    position += 21
    if not multiple:
        while end - position >= 21:
            p = data + position
            if memcmp(p, same, 11) or p[19] & 1 or p[20] != FRAME_END:
                break
            if last == 0xFFFFFFFFFFFFFFFF or get64(p + 11) != last + 1:
                break
            last += 1
            position += 21
    out.append((ACK, channel, first, last, multiple))
    return position


cdef void find_content(const uint8_t* data, Py_ssize_t position, Py_ssize_t end, uint16_t channel, int64_t limit,
                       Content* content) noexcept nogil:
    cdef uint32_t size
    cdef uint64_t left
    cdef int frames = 0
    cdef const uint8_t* p = data + position
    content.after = INCOMPLETE
    if end - position < 7:
        return
    size = get32(p + 3)
    if p[0] != 2 or get16(p + 1) != channel or size < 14 or size > limit:
        content.after = FOREIGN
        return
    if size >= end - position - 7:
        return
    left = get64(p + 11)
    if p[7 + <Py_ssize_t>size] != FRAME_END or get32(p + 7) != BASIC << 16 or left > LARGEST_BODY:
        content.after = FOREIGN
        return
    content.properties = position + 19
    content.properties_size = <Py_ssize_t>size - 12
    content.body_size = <uint32_t>left
    position += 8 + <Py_ssize_t>size
    content.body = position
    while left:
        if end - position >= 7:
            p = data + position
            size = get32(p + 3)
            if p[0] != 3 or get16(p + 1) != channel or size > limit or size > left:
                content.after = FOREIGN
                return
            if size < end - position - 7:
                if p[7 + <Py_ssize_t>size] != FRAME_END:
                    content.after = FOREIGN
                    return
                left -= size
                position += 8 + <Py_ssize_t>size
                frames += 1
                continue
        if content.body_size >= WAIT_BYTES or frames > WAIT_FRAMES:
            content.after = FOREIGN
        return
    content.after = position


cdef int plain_properties(const uint8_t* properties, Py_ssize_t size, uint16_t flags) noexcept nogil:
    """1 if they say persistent, 0 if not, -1 if they are malformed or of an unknown mode."""
    cdef Py_ssize_t position = 2
    cdef int persistent = 0
    cdef int number
    for number in range(14):
        if flags & (0x8000 >> number):
            if SIZES[number]:
                position += SIZES[number]
                if position > size:
                    return -1
                if number == 3:
                    if properties[position - 1] not in (1, 2):
                        return -1
                    persistent = properties[position - 1] == 2
            else:
                if position >= size:
                    return -1
                position += 1 + properties[position]
    return persistent if position == size else -1


cdef bint take(const uint8_t* data, Run* run, Content* content, list out) except -1:
    """The message becomes a record of the run, or of a new one if it does not belong to this one or is too long for it.
    False if its properties are not to be taken."""
    cdef const uint8_t* properties = data + content.properties
    cdef Py_ssize_t properties_size = content.properties_size
    cdef uint16_t flags
    cdef int persistent = 0
    cdef bint decisive, belongs
    if run.count and run.properties_size == properties_size and not memcmp(data + run.properties, properties, properties_size):
        decisive = run.decisive
        persistent = run.persistent
        belongs = True
    else:
        flags = get16(properties)
        if flags & UNUSED:
            return False
        decisive = (flags & DECISIVE) != 0
        if not decisive:
            persistent = plain_properties(properties, properties_size, flags)
            if persistent < 0:
                return False
        belongs = not decisive and not run.decisive and run.persistent == persistent
    cdef uint32_t body_size = content.body_size
    cdef Py_ssize_t inside = (
        2 + (1 if run.count < 64 else 2)
        + varint_size(run.key_size) + run.key_size + varint_size(body_size) + <Py_ssize_t>body_size
        + EXCHANGE_HEADER_SIZE + varint_size(run.exchange_size) + run.exchange_size
        + PROPERTIES_HEADER_SIZE + varint_size(<uint32_t>properties_size) + properties_size
    )
    if inside > 0x7FFFFFFF:
        return False
    cdef Py_ssize_t record_size = inside + varint_size(<uint32_t>inside)
    if run.count and (not belongs or run.count >= RUN_MESSAGES or run.size + record_size > RUN_BYTES):
        if run.count >= 64:
            inside -= 1
            record_size = inside + varint_size(<uint32_t>inside)
        close(data, run, out)
    if not run.count:
        run.size = 0
        run.body_bytes = 0
        run.decisive = decisive
        run.persistent = persistent
        run.first_properties = content.properties
        run.first_properties_size = properties_size
    if run.room - run.size < record_size:
        grow(run, record_size)
    cdef uint8_t* p = run.records + run.size
    p = put_length(p, <uint32_t>inside)
    p[0] = 0
    p[1] = 0
    p = put_length(p + 2, <uint32_t>run.count)
    p = put_length(p, run.key_size)
    memcpy(p, data + run.key, run.key_size)
    p = put_length(p + run.key_size, body_size)
    p = put_body(p, data + content.body, body_size)
    memcpy(p, EXCHANGE_HEADER, EXCHANGE_HEADER_SIZE)
    p = put_length(p + EXCHANGE_HEADER_SIZE, run.exchange_size)
    memcpy(p, data + run.exchange, run.exchange_size)
    p += run.exchange_size
    memcpy(p, PROPERTIES_HEADER, PROPERTIES_HEADER_SIZE)
    p = put_length(p + PROPERTIES_HEADER_SIZE, <uint32_t>properties_size)
    memcpy(p, properties, properties_size)
    run.properties = content.properties
    run.properties_size = properties_size
    run.size += record_size
    run.body_bytes += body_size
    run.count += 1
    return True


cdef inline uint8_t* put_body(uint8_t* p, const uint8_t* frames, uint32_t left) noexcept nogil:
    """The payloads of the body frames, which were found to be whole, one after the other."""
    cdef uint32_t size
    while left:
        size = get32(frames + 3)
        memcpy(p, frames + 7, size)
        p += size
        frames += 8 + <Py_ssize_t>size
        left -= size
    return p


cdef int grow(Run* run, Py_ssize_t more) except -1:
    cdef Py_ssize_t room = max(run.room * 2, run.size + more, 4096)
    cdef uint8_t* records = <uint8_t*>PyMem_Realloc(run.records, room)
    if records == NULL:
        raise MemoryError()
    run.records = records
    run.room = room
    return 0


# Delivering ------------------------------------------------------------------------------------------------------------


cdef struct Text:
    const uint8_t* at
    Py_ssize_t size


cdef struct Record:
    Text key
    Text body
    Text exchange
    Text properties


def deliver(data, Py_ssize_t position, Py_ssize_t count, bytes consumer_tag not None, first_tag, bint redelivered,
            int64_t channel, int64_t frame_max):
    """See `headrace.record.amqp.pure.delivering.deliver`."""
    cdef Py_buffer view
    cdef Py_ssize_t tag_size = PyBytes_GET_SIZE(consumer_tag)
    cdef Py_ssize_t after, size, largest, room
    cdef uint64_t body_bytes = 0
    cdef PyObject* made = NULL
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, count)
        if (<const uint8_t*>view.buf)[22] & COMPRESSED_OR_CONTROL:
            raise ValueError("not a batch of messages")
        if tag_size > LONGEST_TEXT or first_tag < 0 or first_tag + count > 1 << 64 or not 0 <= channel <= 0xFFFF:
            raise ValueError("no such consumer tag, delivery tag or channel")
        if frame_max and not 8 < frame_max <= 0xFFFFFFFF:
            raise ValueError("no room for a payload")
        if not count:
            return b"", position, 0
        largest = frame_max - 8 if frame_max else 0xFFFFFFFF
        after = skipped(<const uint8_t*>view.buf, position, view.len, count)
        # All texts of a message, its properties and its body are in its record, each once.
        room = (after - position) + count * (AROUND_A_MESSAGE + tag_size) + 8 * ((after - position) // largest)
        made = new_bytes(NULL, room)
        size = delivered(
            <const uint8_t*>view.buf, position, after, count, <const uint8_t*>PyBytes_AS_STRING(consumer_tag), tag_size,
            first_tag, redelivered, <uint16_t>channel, largest, <uint8_t*>bytes_of(made), &body_bytes,
        )
        _PyBytes_Resize(&made, size)
        return <object>made, after, body_bytes
    finally:
        Py_XDECREF(made)
        PyBuffer_Release(&view)


def skip(data, Py_ssize_t position, Py_ssize_t count):
    """See `headrace.record.amqp.pure.delivering.skip`."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        check_range(&view, position, count)
        return skipped(<const uint8_t*>view.buf, position, view.len, count)
    finally:
        PyBuffer_Release(&view)


cdef int check_range(Py_buffer* view, Py_ssize_t position, Py_ssize_t count) except -1:
    if not HEADER_SIZE <= position <= view.len or count < 0:
        raise ValueError("not a position in a batch")
    return 0


cdef Py_ssize_t skipped(const uint8_t* data, Py_ssize_t position, Py_ssize_t size, Py_ssize_t count) except -1:
    cdef const uint8_t* p = data + position
    cdef const uint8_t* end = data + size
    cdef int32_t length = 0
    while count:
        p = get_varint(p, end, &length)
        if p == NULL or length < 0 or length > end - p:
            raise ValueError("malformed record")
        p += length
        count -= 1
    return p - data


cdef Py_ssize_t delivered(const uint8_t* data, Py_ssize_t position, Py_ssize_t after, Py_ssize_t count,
                          const uint8_t* tag, Py_ssize_t tag_size, uint64_t number, bint redelivered, uint16_t channel,
                          Py_ssize_t largest, uint8_t* out, uint64_t* body_bytes) except -1:
    cdef const uint8_t* p = data + position
    cdef const uint8_t* end = data + after
    cdef const uint8_t* body
    cdef uint8_t* w = out
    cdef Record record
    cdef int32_t length = 0
    cdef int failed
    cdef Py_ssize_t left, size
    while count:
        p = get_varint(p, end, &length)
        failed = parse(p, p + length, &record)
        if failed:
            raise ValueError("malformed record" if failed == MALFORMED else "not the record of a message")
        p += length
        # basic.deliver
        w[0] = 1
        put16(w + 1, channel)
        put32(w + 3, <uint32_t>(16 + tag_size + record.exchange.size + record.key.size))
        put32(w + 7, DELIVER_METHOD)
        w[11] = <uint8_t>tag_size
        memcpy(w + 12, tag, tag_size)
        w += 12 + tag_size
        put64(w, number)
        w[8] = redelivered
        w = put_text(w + 9, &record.exchange)
        w = put_text(w, &record.key)
        w[0] = FRAME_END
        # content header
        w[1] = 2
        put16(w + 2, channel)
        put32(w + 4, <uint32_t>(12 + record.properties.size))
        put32(w + 8, BASIC << 16)
        put64(w + 12, <uint64_t>record.body.size)
        memcpy(w + 20, record.properties.at, record.properties.size)
        w += 20 + record.properties.size
        w[0] = FRAME_END
        w += 1
        # body
        body = record.body.at
        left = record.body.size
        while left:
            size = min(left, largest)
            w[0] = 3
            put16(w + 1, channel)
            put32(w + 3, <uint32_t>size)
            memcpy(w + 7, body, size)
            w[7 + size] = FRAME_END
            w += 8 + size
            body += size
            left -= size
        body_bytes[0] += <uint64_t>record.body.size
        number += 1
        count -= 1
    return w - out


cdef inline uint8_t* put_text(uint8_t* w, Text* text) noexcept nogil:
    w[0] = <uint8_t>text.size
    memcpy(w + 1, text.at, text.size)
    return w + 1 + text.size


cdef inline const uint8_t* get_bytes(const uint8_t* p, const uint8_t* end, Text* text) noexcept nogil:
    """The position after them; NULL if they are cut short."""
    cdef int32_t length = 0
    p = get_varint(p, end, &length)
    if p == NULL:
        return NULL
    if length < 0:
        length = 0
    if length > end - p:
        return NULL
    text.at = p
    text.size = length
    return p + length


cdef int parse(const uint8_t* p, const uint8_t* end, Record* record) noexcept nogil:
    """Finds what a message needs in the record from `p`, after its length, to `end`."""
    cdef int32_t count = 0
    cdef Text name
    cdef Text content
    if p == end:
        return MALFORMED
    p = past_varlong(p + 1, end)
    if p != NULL:
        p = get_varint(p, end, &count)
    if p != NULL:
        p = get_bytes(p, end, &record.key)
    if p != NULL:
        p = get_bytes(p, end, &record.body)
    if p != NULL:
        p = get_varint(p, end, &count)
    if p == NULL or count < 0 or count > end - p:
        return MALFORMED
    record.exchange = Text(NULL, 0)
    record.properties = Text(NULL, 0)
    while count:
        p = get_bytes(p, end, &name)
        if p == NULL:
            return MALFORMED
        p = get_bytes(p, end, &content)
        if p == NULL:
            return MALFORMED
        if name.size == 13 and not memcmp(name.at, EXCHANGE_HEADER + 2, 13):
            record.exchange = content
        elif name.size == 15 and not memcmp(name.at, PROPERTIES_HEADER + 1, 15):
            record.properties = content
        count -= 1
    if p != end:
        return MALFORMED
    if record.exchange.at == NULL or record.properties.at == NULL:
        return NOT_A_MESSAGE
    if record.exchange.size > LONGEST_TEXT or record.key.size > LONGEST_TEXT:
        return NOT_A_MESSAGE
    return 0


# Batches ---------------------------------------------------------------------------------------------------------------


def run_batch(records, count, timestamp_ms):
    """See `headrace.record.amqp.pure.batching.run_batch`."""
    if not 0 < count <= 0x7FFFFFFF:
        raise ValueError("a batch has at least one record")
    if not -0x8000000000000000 <= timestamp_ms <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError("a timestamp has 64 bits")
    cdef Py_buffer view
    cdef bytearray batch
    cdef uint8_t* p
    cdef uint64_t time = <uint64_t><int64_t>timestamp_ms
    cdef uint32_t number = count
    PyObject_GetBuffer(records, &view, PyBUF_SIMPLE)
    try:
        if view.len > 0x7FFFFFFF - (HEADER_SIZE - LENGTH_BASE):
            raise ValueError("too long for a batch")
        batch = new_bytearray(NULL, HEADER_SIZE + view.len)
        p = <uint8_t*>PyByteArray_AS_STRING(batch)
        put64(p, 0)
        put32(p + 8, <uint32_t>(HEADER_SIZE - LENGTH_BASE + view.len))
        put32(p + 12, 0)
        p[16] = 2
        put16(p + 21, 0)
        put32(p + 23, number - 1)
        put64(p + 27, time)
        put64(p + 35, time)
        put64(p + 43, 0xFFFFFFFFFFFFFFFF)
        put16(p + 51, 0xFFFF)
        put32(p + 53, 0xFFFFFFFF)
        put32(p + 57, number)
        memcpy(p + HEADER_SIZE, view.buf, view.len)
        put32(p + 17, crc32c(PyMemoryView_FromMemory(<char*>p + CRC_START, HEADER_SIZE + view.len - CRC_START, PyBUF_READ)))
        return batch
    finally:
        PyBuffer_Release(&view)


def merge_records(list parts, list counts):
    """See `headrace.record.amqp.pure.batching.merge_records`."""
    cdef bytes part = parts[0]
    cdef Py_ssize_t total = PyBytes_GET_SIZE(part)
    cdef uint32_t number = counts[0], place
    cdef Py_ssize_t index
    for index in range(1, len(parts)):
        part = parts[index]
        total += PyBytes_GET_SIZE(part) + 8 * <Py_ssize_t>counts[index]  # room for longer numbers and lengths
    cdef bytearray merged = bytearray(total)
    cdef uint8_t* out = <uint8_t*>PyByteArray_AS_STRING(merged)
    cdef uint8_t* p = out
    cdef const uint8_t* source
    cdef const uint8_t* end
    cdef const uint8_t* record_end
    cdef const uint8_t* rest
    cdef int32_t length, old
    part = parts[0]
    memcpy(p, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    p += PyBytes_GET_SIZE(part)
    for index in range(1, len(parts)):
        part = parts[index]
        source = <const uint8_t*>PyBytes_AS_STRING(part)
        end = source + PyBytes_GET_SIZE(part)
        for place in range(<uint32_t>counts[index]):
            source = get_varint(source, end, &length)
            if source == NULL or length < 3 or length > end - source:
                raise ValueError("this is no record")
            record_end = source + length
            rest = past_varlong(source + 1, record_end)
            if rest == NULL:
                raise ValueError("this is no record")
            old = <int32_t>(rest - source)  # attributes and time, which stay
            rest = get_varint(rest, record_end, &length)
            if rest == NULL:
                raise ValueError("this is no record")
            p = put_length(p, <uint32_t>(old + varint_size(number) + (record_end - rest)))
            memcpy(p, source, old)
            p = put_length(p + old, number)
            memcpy(p, rest, record_end - rest)
            p += record_end - rest
            source = record_end
            number += 1
        if source != end:
            raise ValueError("this is no run")
    return PyBytes_FromStringAndSize(<const char*>out, p - out)


def split_batches(data):
    """See `headrace.record.amqp.pure.batching.split_batches`."""
    cdef Py_buffer view
    cdef list batches = []
    cdef Py_ssize_t position = 0, size
    cdef const uint8_t* p
    cdef int32_t length, count
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while view.len - position >= HEADER_SIZE:
            p = <const uint8_t*>view.buf + position
            length = <int32_t>get32(p + 8)
            count = <int32_t>get32(p + 57)
            if p[16] != 2 or length < HEADER_SIZE - LENGTH_BASE or count < 0:
                raise ValueError("this is no batch")
            size = LENGTH_BASE + <Py_ssize_t>length
            if size > view.len - position:
                break
            if size == view.len and PyBytes_CheckExact(data):
                batch = data
            else:
                batch = PyBytes_FromStringAndSize(<const char*>p, size)
            batches.append((
                <int64_t>get64(p), count, <int64_t>get64(p + (35 if p[22] & LOG_APPEND_TIME else 27)), batch
            ))
            position += size
        return batches
    finally:
        PyBuffer_Release(&view)


def batch_span(batch):
    """See `headrace.record.amqp.pure.batching.batch_span`."""
    cdef Py_buffer view
    cdef int64_t span = 0
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    cdef bint whole = view.len >= HEADER_SIZE
    if whole:
        span = <int64_t><int32_t>get32(<const uint8_t*>view.buf + 23) + 1
    PyBuffer_Release(&view)
    if not whole:
        raise ValueError("this is no batch")
    return span


from headrace.record.amqp.events import bad_frame_end, frame_too_large  # noqa: E402
from headrace.record.twin import crc32c  # noqa: E402
