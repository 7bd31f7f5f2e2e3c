# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The compiled twin of `headrace.spark.columns`: record batches to Arrow columns and back.

Docstrings and the why are in `headrace.spark.columns.pure_decode` and `pure_encode`; here is only how. Every byte of a record
is read through a `Cursor` that knows its end; every byte of a column is written through a `Column` that grows.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from headrace.record.batch import read_header
from headrace.record.compression import decompress
from headrace.record.errors import CorruptBatch, UnsupportedMagic
from headrace.record.twin import crc32c

cdef extern from *:
    """
    #include <stdint.h>

    /* Shifts rather than byte swaps: right on any byte order, and compilers make one instruction of them. */
    static inline uint32_t hc_get32(const uint8_t *p) {
        return ((uint32_t)p[0] << 24) | ((uint32_t)p[1] << 16) | ((uint32_t)p[2] << 8) | (uint32_t)p[3];
    }
    static inline uint64_t hc_get64(const uint8_t *p) {
        return ((uint64_t)hc_get32(p) << 32) | (uint64_t)hc_get32(p + 4);
    }
    """
    uint32_t get32 "hc_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hc_get64"(const uint8_t* p) noexcept nogil

cdef enum:  # as in headrace.record
    HEADER_SIZE = 61
    LENGTH_BASE = 12
    CRC_START = 21
    COMPRESSION_MASK = 0x07
    LOG_APPEND_TIME = 0x08
    CONTROL = 0x20
    SMALLEST_RECORD = 7


# Memory ----------------------------------------------------------------------------------------------------------------


cdef uint8_t[1] NOTHING


cdef class Memory:
    """Bytes that Arrow holds on to: freed when nobody looks at them any more."""

    cdef uint8_t* data
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* view, int flags):
        # Arrow wants to be pointed somewhere even when there is nothing.
        PyBuffer_FillInfo(view, self, self.data if self.data != NULL else NOTHING, self.size, True, flags)

    def __len__(self):
        return self.size


cdef struct Column:
    uint8_t* data
    Py_ssize_t size
    Py_ssize_t room
    Py_ssize_t wont  # how large it became the last time, which is a good guess for the next


cdef inline int reserve(Column* column, Py_ssize_t more) except -1 nogil:
    if more > column.room - column.size:
        grow(column, more)
    return 0


cdef int grow(Column* column, Py_ssize_t more) except -1 nogil:
    cdef Py_ssize_t room = max(max(column.size + more, column.room + column.room // 2), max(column.wont, 1024))
    cdef uint8_t* data = <uint8_t*>realloc(column.data, room)
    if data == NULL:
        with gil:
            raise MemoryError()
    column.data = data
    column.room = room
    return 0


cdef Memory hand_over(Column* column):
    """What was written, as an object of its own; the column is empty again."""
    cdef Memory memory = Memory.__new__(Memory)
    memory.data = column.data
    memory.size = column.size
    column.wont = column.size + column.size // 8
    column.data = NULL
    column.size = 0
    column.room = 0
    return memory


cdef inline int add32(Column* column, int32_t value) except -1 nogil:
    reserve(column, 4)
    (<int32_t*>(column.data + column.size))[0] = value
    column.size += 4
    return 0


cdef inline int add64(Column* column, int64_t value) except -1 nogil:
    reserve(column, 8)
    (<int64_t*>(column.data + column.size))[0] = value
    column.size += 8
    return 0


cdef inline int add_bytes(Column* column, const uint8_t* data, Py_ssize_t size) except -1 nogil:
    reserve(column, size)
    memcpy(column.data + column.size, data, size)
    column.size += size
    return 0


cdef struct Marks:  # which rows are there, as Arrow wants it: a bit for each row, and nothing while none is null
    Column bits
    Py_ssize_t nulls


cdef inline int mark(Marks* marks, Py_ssize_t row, bint there) except -1 nogil:
    if there and marks.nulls == 0:
        return 0
    return mark_slowly(marks, row, there)


cdef int mark_slowly(Marks* marks, Py_ssize_t row, bint there) except -1 nogil:
    cdef Py_ssize_t known = marks.bits.size
    cdef Py_ssize_t wanted = (row >> 3) + 1
    if wanted > known:
        reserve(&marks.bits, wanted - known)
        memset(marks.bits.data + known, 0, wanted - known)
        marks.bits.size = wanted
    cdef Py_ssize_t i
    if marks.nulls == 0:  # all before this row were there
        memset(marks.bits.data, 0xFF, row >> 3)
        for i in range(row & ~7, row):
            marks.bits.data[i >> 3] |= 1 << (i & 7)
    if there:
        marks.bits.data[row >> 3] |= 1 << (row & 7)
    else:
        marks.nulls += 1
    return 0


cdef tuple hand_over_marks(Marks* marks):
    cdef Py_ssize_t nulls = marks.nulls
    marks.nulls = 0
    if nulls == 0:
        return 0, None
    return nulls, hand_over(&marks.bits)


cdef struct Content:  # a column of bytes or text: where each one ends, and all of them end to end
    Marks marks
    Column ends
    Column data


cdef inline int add_content(Content* content, Py_ssize_t row, const uint8_t* data, int32_t size) except -1 nogil:
    """A size below zero is a null."""
    if row == 0:
        content.ends.size = 0
        add32(&content.ends, 0)
    mark(&content.marks, row, size >= 0)
    if size > 0:
        add_bytes(&content.data, data, size)
    return add32(&content.ends, <int32_t>content.data.size)


cdef tuple hand_over_content(Content* content):
    if content.ends.size == 0:
        add32(&content.ends, 0)
    return (*hand_over_marks(&content.marks), hand_over(&content.ends), hand_over(&content.data))


cdef void drop_content(Content* content) noexcept:
    free(content.marks.bits.data)
    free(content.ends.data)
    free(content.data.data)


# Reading ---------------------------------------------------------------------------------------------------------------


include "_cursor.pxi"


cdef inline int32_t read_content(Cursor* c, const uint8_t** start) noexcept nogil:
    """The length, negative for null; `start` is where it begins."""
    cdef int32_t length = read_varint(c)
    start[0] = c.data + c.pos
    if length > 0:
        if length > c.end - c.pos:
            c.failed = True
            return -1
        c.pos += length
    return length


cdef inline int64_t micros(int64_t millis) noexcept nogil:
    """Spark counts in microseconds: times beyond its range become the first or last it has."""
    if millis > INT64_MAX // 1000:
        return INT64_MAX
    if millis < -(INT64_MAX // 1000):
        return INT64_MIN
    return millis * 1000


def survey(buf):
    """See `headrace.spark.columns.pure_decode.survey`."""
    cdef Py_buffer view
    PyObject_GetBuffer(buf, &view, PyBUF_SIMPLE)
    cdef const uint8_t* p = <const uint8_t*>view.buf
    cdef Py_ssize_t pos = 0
    cdef int32_t length, delta
    cdef int64_t base, following = -1
    while view.len - pos >= HEADER_SIZE:
        length = <int32_t>get32(p + pos + 8)
        if length < HEADER_SIZE - LENGTH_BASE or length > view.len - pos - LENGTH_BASE:
            break
        base = <int64_t>get64(p + pos)
        delta = <int32_t>get32(p + pos + 23)
        if base < 0 or delta < 0 or base >= INT64_MAX - delta:
            break
        following = base + delta + 1
        pos += <Py_ssize_t>length + LENGTH_BASE
    PyBuffer_Release(&view)
    return pos, following


cdef class Decoder:
    """See `headrace.spark.columns.pure_decode.Decoder`."""

    cdef readonly Py_ssize_t rows
    cdef readonly Py_ssize_t size
    cdef public int64_t first
    cdef int64_t end
    cdef bint with_headers
    cdef Py_ssize_t max_rows
    cdef Py_ssize_t max_bytes

    # The batches it was fed, and where the next one begins.
    cdef object aborted
    cdef object source
    cdef Py_buffer batches
    cdef bint fed
    cdef Py_ssize_t pos
    # The records of the batch under way; a compressed one's are in `payload`.
    cdef Py_buffer payload
    cdef bint unpacked
    cdef Cursor records
    cdef int32_t left
    cdef int64_t base_offset
    cdef int64_t base_time
    cdef int64_t append_time
    cdef int32_t time_type

    cdef Content keys
    cdef Content values
    cdef Column offsets
    cdef Column times
    cdef Column time_types
    cdef Marks header_marks
    cdef Column header_ends
    cdef Content header_names
    cdef Content header_values
    cdef Py_ssize_t headers

    def __init__(self, int64_t first, int64_t end, bint with_headers, Py_ssize_t max_rows, Py_ssize_t max_bytes):
        self.first = first
        self.end = end
        self.with_headers = with_headers
        self.max_rows = max_rows
        self.max_bytes = max_bytes

    def __dealloc__(self):
        if self.unpacked:
            PyBuffer_Release(&self.payload)
        if self.fed:
            PyBuffer_Release(&self.batches)
        drop_content(&self.keys)
        drop_content(&self.values)
        free(self.offsets.data)
        free(self.times.data)
        free(self.time_types.data)
        free(self.header_marks.bits.data)
        free(self.header_ends.data)
        drop_content(&self.header_names)
        drop_content(&self.header_values)

    cdef void let_go(self):
        if self.unpacked:
            PyBuffer_Release(&self.payload)
            self.unpacked = False
        if self.fed:
            PyBuffer_Release(&self.batches)
            self.fed = False
        self.source = None
        self.left = 0
        self.pos = 0

    def feed(self, batches, aborted=None):
        self.let_go()
        self.source = memoryview(batches)
        PyObject_GetBuffer(batches, &self.batches, PyBUF_SIMPLE)
        self.fed = True
        self.aborted = aborted

    def fill(self):
        try:
            while True:
                if self.left:
                    if self.fill_from_batch():
                        return True
                if not self.next_batch():
                    self.let_go()
                    return False
        except BaseException:
            self.let_go()
            raise

    cdef bint next_batch(self) except -1:
        """Goes on to the next batch that has records for us; False when there is none."""
        cdef const uint8_t* p
        cdef Py_ssize_t size
        cdef int32_t length, count, delta
        cdef int64_t base
        cdef int attributes
        if self.unpacked:
            PyBuffer_Release(&self.payload)
            self.unpacked = False
        if not self.fed:
            return False
        while self.batches.len - self.pos >= HEADER_SIZE:
            p = <const uint8_t*>self.batches.buf + self.pos
            length = <int32_t>get32(p + 8)
            if length < HEADER_SIZE - LENGTH_BASE or length > self.batches.len - self.pos - LENGTH_BASE:
                return False
            if p[16] < 2:
                raise UnsupportedMagic(f"message format v{p[16]} is not supported")
            if p[16] > 2:
                raise CorruptBatch("unknown message format")
            size = <Py_ssize_t>length + LENGTH_BASE
            base = <int64_t>get64(p)
            delta = <int32_t>get32(p + 23)
            if base < 0 or delta < 0 or base >= INT64_MAX - delta:
                raise CorruptBatch("offsets that no partition has")
            if base >= self.end:
                return False
            batch = self.source[self.pos : self.pos + size]
            self.pos += size
            if base + delta < self.first and self.aborted is None:
                continue
            if crc32c(batch[CRC_START:]) != get32(p + 17):
                raise CorruptBatch("wrong CRC")
            attributes = p[22]
            if self.aborted is not None:
                if self.aborted.drops(read_header(batch), batch):
                    continue
                if base + delta < self.first:
                    continue
            elif attributes & CONTROL:
                continue
            count = <int32_t>get32(p + 57)
            if count == 0:
                continue
            if attributes & COMPRESSION_MASK:
                PyObject_GetBuffer(decompress(attributes & COMPRESSION_MASK, batch[HEADER_SIZE:]), &self.payload, PyBUF_SIMPLE)
                self.unpacked = True
                self.records.data = <const uint8_t*>self.payload.buf
                self.records.end = self.payload.len
            else:
                self.records.data = p + HEADER_SIZE
                self.records.end = size - HEADER_SIZE
            if not 0 <= count <= self.records.end // SMALLEST_RECORD:
                raise CorruptBatch("the record count does not fit the records")
            self.records.pos = 0
            self.records.failed = False
            self.left = count
            self.base_offset = base
            self.base_time = <int64_t>get64(p + 27)
            self.append_time = <int64_t>get64(p + 35)
            self.time_type = 1 if attributes & LOG_APPEND_TIME else 0
            return True
        return False

    cdef bint fill_from_batch(self) except -1:
        """True when full; otherwise the batch is done."""
        cdef int sound
        with nogil:
            sound = self.add_records()
        if sound < 0:
            raise CorruptBatch("malformed record")
        if self.left:
            return True
        if self.records.pos != self.records.end:
            raise CorruptBatch("bytes after the last record")
        return False

    cdef int add_records(self) except? -2 nogil:
        cdef Cursor c
        cdef Py_ssize_t before, row = self.rows
        cdef int32_t length, key_size, value_size, header_count
        cdef int64_t delta, offset, time
        cdef const uint8_t* key
        cdef const uint8_t* value
        c.data = self.records.data
        c.failed = False
        while self.left:
            before = self.records.pos
            length = read_varint(&self.records)
            if self.records.failed or length < 0 or length > self.records.end - self.records.pos:
                return -1
            if row >= self.max_rows or (row > 0 and length > self.max_bytes - self.size):
                self.records.pos = before
                break
            c.pos = self.records.pos + 1  # attributes: no bit is in use
            c.end = self.records.pos + length
            delta = read_varlong(&c)
            offset = <int64_t>(<uint64_t>self.base_offset + <uint64_t>(<int64_t>read_varint(&c)))
            key_size = read_content(&c, &key)
            value_size = read_content(&c, &value)
            header_count = read_varint(&c)
            if c.failed:
                return -1
            self.records.pos = c.end
            self.left -= 1
            if not self.first <= offset < self.end:
                if self.skip_headers(&c, header_count) < 0:
                    return -1
                continue
            time = self.append_time if self.time_type else <int64_t>(<uint64_t>self.base_time + <uint64_t>delta)
            add_content(&self.keys, row, key, key_size)
            add_content(&self.values, row, value, value_size)
            add64(&self.offsets, offset)
            add64(&self.times, micros(time))
            add32(&self.time_types, self.time_type)
            if self.with_headers:
                if self.add_headers(&c, row, header_count) < 0:
                    return -1
            elif self.skip_headers(&c, header_count) < 0:
                return -1
            self.size += length
            row += 1
            self.rows = row
        return 0

    cdef int skip_headers(self, Cursor* c, int32_t count) noexcept nogil:
        cdef const uint8_t* ignored
        if count < 0 or count > c.end - c.pos:
            return -1
        while count:
            if read_content(c, &ignored) < 0 or c.failed:
                return -1
            read_content(c, &ignored)
            if c.failed:
                return -1
            count -= 1
        return 0 if c.pos == c.end else -1

    cdef int add_headers(self, Cursor* c, Py_ssize_t row, int32_t count) except? -2 nogil:
        cdef const uint8_t* name
        cdef const uint8_t* value
        cdef int32_t name_size, value_size
        if count < 0 or count > c.end - c.pos:
            return -1
        if row == 0:
            self.header_ends.size = 0
            add32(&self.header_ends, 0)
        mark(&self.header_marks, row, count > 0)
        while count:
            name_size = read_content(c, &name)
            if name_size < 0 or c.failed:
                return -1
            value_size = read_content(c, &value)
            if c.failed:
                return -1
            if is_ascii(name, name_size):
                add_content(&self.header_names, self.headers, name, name_size)
            else:
                with gil:
                    self.add_name(name[:name_size])
            add_content(&self.header_values, self.headers, value, value_size)
            self.headers += 1
            count -= 1
        add32(&self.header_ends, <int32_t>self.headers)
        return 0 if c.pos == c.end else -1

    cdef int add_name(self, bytes raw) except -1:
        """Text in Arrow is UTF-8: what isn't becomes a replacement character, as in Java."""
        cdef bytes text = raw.decode("utf-8", "replace").encode()
        return add_content(&self.header_names, self.headers, text, <int32_t>len(text))

    def take(self):
        cdef Py_ssize_t rows = self.rows
        columns = (
            rows,
            hand_over_content(&self.keys),
            hand_over_content(&self.values),
            hand_over(&self.offsets),
            hand_over(&self.times),
            hand_over(&self.time_types),
            self.take_headers() if self.with_headers else None,
        )
        self.rows = 0
        self.size = 0
        return columns

    cdef tuple take_headers(self):
        cdef Py_ssize_t headers = self.headers
        if self.header_ends.size == 0:
            add32(&self.header_ends, 0)
        self.headers = 0
        return (
            *hand_over_marks(&self.header_marks),
            hand_over(&self.header_ends),
            headers,
            hand_over_content(&self.header_names),
            hand_over_content(&self.header_values),
        )


cdef inline bint is_ascii(const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint8_t high = 0
    for i in range(size):
        high |= text[i]
    return high < 0x80


# Columns to records (the why is in pure_encode) ------------------------------------------------------------------------

from headrace.spark.columns.errors import NoSuchPartition


cdef class View:
    """A borrowed buffer of Arrow's, as long as this object lives."""

    cdef Py_buffer raw
    cdef bint held
    cdef const uint8_t* data
    cdef Py_ssize_t size

    def __cinit__(self, source):
        self.data = NULL
        if source is not None:
            PyObject_GetBuffer(source, &self.raw, PyBUF_SIMPLE)
            self.held = True
            self.data = <const uint8_t*>self.raw.buf
            self.size = self.raw.len

    def __dealloc__(self):
        if self.held:
            PyBuffer_Release(&self.raw)


cdef class Texts:
    """A column of bytes or text."""

    cdef View there
    cdef View ends
    cdef View content
    cdef const uint8_t* bits  # NULL where nothing is null
    cdef const int32_t* limits
    cdef const uint8_t* data
    cdef Py_ssize_t first

    def __cinit__(self, Py_ssize_t rows, view):
        there, offset, ends, data = view
        self.there, self.ends, self.content = View(there), View(ends), View(data)
        self.first = offset
        self.bits = self.there.data
        self.data = self.content.data
        self.limits = <const int32_t*>self.ends.data + self.first
        if rows == 0:
            return
        if self.ends.size < 4 * (self.first + rows + 1) or (self.bits != NULL and self.there.size * 8 < self.first + rows):
            raise ValueError("a column is shorter than its batch")
        cdef Py_ssize_t row
        cdef int32_t last = self.limits[0]
        cdef bint wrong = last < 0
        for row in range(rows):
            wrong |= self.limits[row + 1] < last
            last = self.limits[row + 1]
        if wrong or last > self.content.size:
            raise ValueError("a column is shorter than its batch")


cdef class Numbers:
    cdef View there
    cdef View content
    cdef const uint8_t* bits
    cdef const uint8_t* data
    cdef Py_ssize_t first

    def __cinit__(self, Py_ssize_t rows, view, Py_ssize_t width):
        there, offset, data = view
        self.there, self.content = View(there), View(data)
        self.first = offset
        self.bits = self.there.data
        self.data = self.content.data + width * self.first
        if self.content.size < width * (self.first + rows) or (self.bits != NULL and self.there.size * 8 < self.first + rows):
            raise ValueError("a column is shorter than its batch")


cdef inline bint bit(const uint8_t* bits, Py_ssize_t at) noexcept nogil:
    return bits == NULL or bits[at >> 3] >> (at & 7) & 1


cdef inline uint32_t murmur2_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = <uint32_t>0x9747B28C ^ <uint32_t>size
    cdef uint32_t k
    cdef Py_ssize_t at = 0
    while size - at >= 4:
        k = data[at] | <uint32_t>data[at + 1] << 8 | <uint32_t>data[at + 2] << 16 | <uint32_t>data[at + 3] << 24
        k *= m
        k ^= k >> 24
        k *= m
        h = h * m ^ k
        at += 4
    if size - at == 3:
        h ^= <uint32_t>data[at + 2] << 16
    if size - at >= 2:
        h ^= <uint32_t>data[at + 1] << 8
    if size - at >= 1:
        h ^= data[at]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ h >> 15


def choose_targets(Py_ssize_t rows, keys, partitions, topics, firsts, counts, sticky):
    cdef Texts key = None if keys is None else Texts(rows, keys)
    cdef Numbers wanted = None if partitions is None else Numbers(rows, partitions, 4)
    cdef View numbers = View(topics)
    cdef const int32_t* of_topic = <const int32_t*>numbers.data
    cdef Py_ssize_t topic_count = len(counts)
    cdef Py_ssize_t row, at
    cdef int32_t topic = 0, partition
    if of_topic != NULL and numbers.size < 4 * rows:
        raise ValueError("a column is shorter than its batch")
    if topic_count == 0 or len(firsts) != topic_count or len(sticky) != topic_count:
        raise ValueError("every topic needs a first target, a number of partitions and a sticky partition")
    targets = bytearray(4 * rows)
    cdef View filled = View(targets)
    cdef int32_t* out = <int32_t*>filled.data
    known = bytearray(12 * topic_count)
    cdef View kept = View(known)
    cdef int32_t* of = <int32_t*>kept.data
    for at in range(topic_count):
        of[3 * at], of[3 * at + 1], of[3 * at + 2] = firsts[at], counts[at], sticky[at]
    for row in range(rows):
        if of_topic != NULL:
            topic = of_topic[row]
            if not 0 <= topic < topic_count:
                raise ValueError("a row of an unknown topic")
        if wanted is not None and bit(wanted.bits, wanted.first + row):
            partition = (<const int32_t*>wanted.data)[row]
            if not 0 <= partition < of[3 * topic + 1]:
                raise NoSuchPartition(topic, partition)
        elif key is not None and bit(key.bits, key.first + row):
            partition = <int32_t>(
                (murmur2_of(key.data + key.limits[row], key.limits[row + 1] - key.limits[row]) & 0x7FFFFFFF)
                % <uint32_t>of[3 * topic + 1]
            )
        else:
            partition = of[3 * topic + 2]
        out[row] = of[3 * topic] + partition
    return targets


cdef inline Py_ssize_t put_varlong(uint8_t* out, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 0
    while rest >= 0x80:
        out[size] = <uint8_t>(rest | 0x80)
        rest >>= 7
        size += 1
    out[size] = <uint8_t>rest
    return size + 1


cdef inline Py_ssize_t varlong_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline Py_ssize_t text_size(Texts column, Py_ssize_t row) noexcept:
    """Length and bytes, as they are in a record."""
    cdef Py_ssize_t size
    if column is None or not bit(column.bits, column.first + row):
        return 1
    size = column.limits[row + 1] - column.limits[row]
    return varlong_size(size) + size


cdef inline Py_ssize_t put_text(uint8_t* out, Texts column, Py_ssize_t row) noexcept:
    cdef Py_ssize_t size, used
    if column is None or not bit(column.bits, column.first + row):
        out[0] = 1  # -1
        return 1
    size = column.limits[row + 1] - column.limits[row]
    used = put_varlong(out, size)
    memcpy(out + used, column.data + column.limits[row], size)
    return used + size


cdef class HeaderTexts:
    cdef View there
    cdef View ends
    cdef const uint8_t* bits
    cdef const int32_t* limits
    cdef Py_ssize_t first
    cdef Texts names
    cdef Texts values

    def __cinit__(self, Py_ssize_t rows, view):
        there, offset, ends, count, names, values = view
        self.there, self.ends = View(there), View(ends)
        self.first = offset
        self.bits = self.there.data
        self.limits = <const int32_t*>self.ends.data + self.first
        self.names, self.values = Texts(count, names), Texts(count, values)
        if rows == 0:
            return
        if self.ends.size < 4 * (self.first + rows + 1) or (self.bits != NULL and self.there.size * 8 < self.first + rows):
            raise ValueError("a column is shorter than its batch")
        cdef Py_ssize_t row
        cdef int32_t last = self.limits[0]
        cdef bint wrong = last < 0
        for row in range(rows):
            wrong |= self.limits[row + 1] < last
            last = self.limits[row + 1]
        if wrong or last > <Py_ssize_t>count:
            raise ValueError("a column is shorter than its batch")

    cdef inline int32_t start(self, Py_ssize_t row) noexcept:
        return self.limits[row]

    cdef inline int32_t stop(self, Py_ssize_t row) noexcept:
        return self.limits[row + 1] if bit(self.bits, self.first + row) else self.limits[row]


def encode_rows(
    Py_ssize_t rows,
    targets,
    Py_ssize_t target_count,
    keys,
    values,
    headers,
    times,
    int64_t now_ms,
    Py_ssize_t max_bytes,
):
    cdef Texts key = None if keys is None else Texts(rows, keys)
    cdef Texts value = Texts(rows, values)
    cdef HeaderTexts header = None if headers is None else HeaderTexts(rows, headers)
    cdef Numbers time = None if times is None else Numbers(rows, times, 8)
    cdef View chosen = View(targets)
    cdef const int32_t* of_row = <const int32_t*>chosen.data
    cdef Py_ssize_t row, at, place, size, body, count, number
    cdef int32_t target
    cdef int64_t when, micros, first = 0, highest = 0
    cdef Column out
    if chosen.size < 4 * rows:
        raise ValueError("a column is shorter than its batch")
    # Sorted by target, each target's rows in their order: counted, then placed.
    starts = bytearray(8 * (target_count + 1))
    cdef View starts_view = View(starts)
    cdef int64_t* start = <int64_t*>starts_view.data
    for row in range(rows):
        if not 0 <= of_row[row] < target_count:
            raise ValueError("a row of an unknown target")
        start[of_row[row] + 1] += 1
    for at in range(target_count):
        start[at + 1] += start[at]
    order = bytearray(8 * rows)
    cdef View order_view = View(order)
    cdef int64_t* sorted_rows = <int64_t*>order_view.data
    for row in range(rows):
        sorted_rows[start[of_row[row]]] = row
        start[of_row[row]] += 1
    # start[t] is now where target t ends.
    done = []
    memset(&out, 0, sizeof(Column))
    try:
        place = 0
        for at in range(target_count):
            count = 0
            out.size = 0
            while place < start[at]:
                row = sorted_rows[place]
                when = now_ms
                if time is not None and bit(time.bits, time.first + row):
                    micros = (<const int64_t*>time.data)[row]
                    when = micros // 1000 - (1 if micros < 0 and micros % 1000 else 0)
                if count == 0:
                    first = highest = when
                body = record_size(key, value, header, row, when - first, count)
                size = varlong_size(body) + body
                if count and out.size + size > max_bytes:
                    done.append((at, <bytes>(<char*>out.data)[:out.size], count, first, highest))
                    count = 0
                    out.size = 0
                    first = highest = when
                    body = record_size(key, value, header, row, 0, 0)
                    size = varlong_size(body) + body
                reserve(&out, size)
                put_record(out.data + out.size, key, value, header, row, when - first, count, body)
                out.size += size
                count += 1
                highest = max(highest, when)
                place += 1
            if count:
                done.append((at, <bytes>(<char*>out.data)[:out.size], count, first, highest))
    finally:
        free(out.data)
    return done


cdef Py_ssize_t record_size(
    Texts key, Texts value, HeaderTexts header, Py_ssize_t row, int64_t time_delta, Py_ssize_t offset_delta
) except -1:
    cdef Py_ssize_t size = 1 + varlong_size(time_delta) + varlong_size(offset_delta)
    cdef Py_ssize_t number
    size += text_size(key, row) + text_size(value, row)
    if header is None:
        size += 1
    else:
        size += varlong_size(header.stop(row) - header.start(row))
        for number in range(header.start(row), header.stop(row)):
            if not bit(header.names.bits, header.names.first + number):
                raise ValueError("a header needs a key")
            size += text_size(header.names, number) + text_size(header.values, number)
    if size > 0x7FFFFFFF:
        raise ValueError("a record is larger than 2 GiB")
    return size


cdef void put_record(
    uint8_t* out,
    Texts key,
    Texts value,
    HeaderTexts header,
    Py_ssize_t row,
    int64_t time_delta,
    Py_ssize_t offset_delta,
    Py_ssize_t body,
) noexcept:
    cdef Py_ssize_t number
    out += put_varlong(out, body)
    out[0] = 0  # attributes: no bit is in use
    out += 1
    out += put_varlong(out, time_delta)
    out += put_varlong(out, offset_delta)
    out += put_text(out, key, row)
    out += put_text(out, value, row)
    if header is None:
        out[0] = 0
        return
    out += put_varlong(out, header.stop(row) - header.start(row))
    for number in range(header.start(row), header.stop(row)):
        out += put_text(out, header.names, number)
        out += put_text(out, header.values, number)
