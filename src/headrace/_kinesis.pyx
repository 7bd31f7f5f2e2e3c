# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The compiled twin of `headrace.kinesis.data.pure`: the same classes, the same answers, the same exceptions.

Docstrings and the why are over there; here is only how. `Puts` holds pointers into the body (or into the objects that it was
given), and base64 decoded once into memory of its own; a batch is written in one go. `RecordList` walks over batches twice: once
to see that they are sound, once to write. `scan` reads JSON and CBOR of the usual form and gives up (None) at whatever else
it meets, so that there is one place for what is wrong with a request: the thorough way.

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


# Puts --------------------------------------------------------------------------------------------------------------------

cdef struct Record:
    const uint8_t* data
    Py_ssize_t data_size
    const uint8_t* key  # NULL: none
    Py_ssize_t key_size
    const uint8_t* explicit_key  # in decimal; NULL: none
    Py_ssize_t explicit_size
    uint64_t high, low  # the hash key, once it was asked for
    bint hashed
    bint failed
    int32_t batch
    int32_t following  # the next one of the same shard
    int32_t place

cdef struct Outcome:
    uint8_t first[24]
    int64_t base_offset
    uint32_t index
    hr_number number


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ (<uint64_t>0 - <uint64_t>(value < 0))
    cdef Py_ssize_t size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t rest = (<uint64_t>value << 1) ^ (<uint64_t>0 - <uint64_t>(value < 0))
    while rest >= 0x80:
        p[0] = <uint8_t>(rest | 0x80)
        p += 1
        rest >>= 7
    p[0] = <uint8_t>rest
    return p + 1


cdef class Puts:
    cdef Record* _records
    cdef uint8_t* _decoded
    cdef object _owner
    cdef Outcome* _outcomes
    cdef Py_ssize_t _batch_count
    cdef Py_ssize_t _batch_room
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t largest
    cdef readonly Py_ssize_t without_key
    cdef readonly object stream_name
    cdef readonly object stream_arn
    cdef readonly dict failed

    def __cinit__(self):
        self._records = NULL
        self._decoded = NULL
        self._outcomes = NULL
        self.without_key = -1
        self.failed = {}

    def __init__(self, records, stream_name=None, stream_arn=None):
        cdef Py_ssize_t place = 0
        cdef bytes data, key, explicit
        cdef const uint8_t* key_start
        cdef const uint8_t* explicit_start
        cdef Py_ssize_t key_size, explicit_size
        self._owner = owner = list(records)
        self.stream_name = stream_name
        self.stream_arn = stream_arn
        self._make_room(len(owner))
        for data, key, explicit in owner:
            key_start = explicit_start = NULL
            key_size = explicit_size = 0
            if key is not None:
                key_start, key_size = <const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
            if explicit is not None:
                explicit_start, explicit_size = <const uint8_t*>PyBytes_AS_STRING(explicit), PyBytes_GET_SIZE(explicit)
            self._set(
                place, <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data),
                key_start, key_size, explicit_start, explicit_size,
            )
            if explicit is not None and not parse_hash(
                self._records[place].explicit_key, self._records[place].explicit_size,
                &self._records[place].high, &self._records[place].low,
            ):
                raise OverflowError("a hash key of more than 128 bits")
            place += 1

    def __dealloc__(self):
        PyMem_Free(self._records)
        PyMem_Free(self._decoded)
        PyMem_Free(self._outcomes)

    cdef int _make_room(self, Py_ssize_t count) except -1:
        if self._records != NULL:
            raise RuntimeError("it has records already")
        self._records = <Record*>PyMem_Malloc((count + 1) * sizeof(Record))
        if self._records == NULL:
            raise MemoryError()
        memset(self._records, 0, (count + 1) * sizeof(Record))
        return 0

    cdef void _set(
        self, Py_ssize_t place, const uint8_t* data, Py_ssize_t data_size, const uint8_t* key, Py_ssize_t key_size,
        const uint8_t* explicit_key, Py_ssize_t explicit_size,
    ) noexcept:
        cdef Record* record = &self._records[place]
        record.data, record.data_size = data, data_size
        record.key, record.key_size = key, key_size
        record.explicit_key, record.explicit_size = explicit_key, explicit_size
        record.hashed = explicit_key != NULL
        record.batch = -1
        cdef Py_ssize_t size = data_size + key_size
        self.size += size
        if size > self.largest:
            self.largest = size
        if key == NULL and self.without_key < 0:
            self.without_key = place
        self.count = place + 1

    def sizes(self):
        return [self._records[place].data_size + self._records[place].key_size for place in range(self.count)]

    def places(self, bytes lasts):
        cdef Py_ssize_t place
        return [
            self._place(&self._records[place], <const uint8_t*>PyBytes_AS_STRING(lasts), PyBytes_GET_SIZE(lasts) // 16)
            for place in range(self.count)
        ]

    cdef Py_ssize_t _place(self, Record* record, const uint8_t* lasts, Py_ssize_t count) noexcept nogil:
        if count == 1:
            return 0
        if not record.hashed:
            md5_of(record.key, record.key_size, &record.high, &record.low)
            record.hashed = True
        cdef Py_ssize_t low = 0, high = count, middle
        cdef uint64_t last
        while low < high:
            middle = (low + high) // 2
            last = get64(lasts + 16 * middle)
            if last < record.high or (last == record.high and get64(lasts + 16 * middle + 8) < record.low):
                low = middle + 1
            else:
                high = middle
        return low

    def batches(self, bytes lasts, int64_t now_ms, Py_ssize_t most, Py_ssize_t spread=-1, again=None):
        cdef Py_ssize_t shards = PyBytes_GET_SIZE(lasts) // 16, place, shard
        cdef Record* record
        cdef set meant = None if again is None else set(again)
        cdef list found = []
        if spread >= shards:
            raise ValueError("no such shard")
        cdef int32_t* firsts = <int32_t*>PyMem_Malloc((shards + 1) * sizeof(int32_t))
        if firsts == NULL:
            raise MemoryError()
        try:
            for shard in range(shards + 1):
                firsts[shard] = -1
            for place in range(self.count - 1, -1, -1):
                record = &self._records[place]
                if record.failed or (meant is not None and record.batch not in meant):
                    continue
                shard = spread if spread >= 0 else self._place(record, <const uint8_t*>PyBytes_AS_STRING(lasts), shards)
                record.following = firsts[shard]
                firsts[shard] = <int32_t>place
            for shard in range(shards + 1):
                place = firsts[shard]
                while place >= 0:
                    place = self._portion(found, shard, place, most, now_ms)
        finally:
            PyMem_Free(firsts)
        return found

    cdef Py_ssize_t _portion(self, list found, Py_ssize_t shard, Py_ssize_t first, Py_ssize_t most, int64_t now_ms) except -2:
        """One batch of the records from `first` on, each followed by its `following`; returns the one behind it."""
        cdef Py_ssize_t number = self._batch_count
        cdef Py_ssize_t place = first, bound = HEADER_SIZE, more, size = HEADER_SIZE
        cdef int32_t count = 0
        cdef Record* record
        while place >= 0:
            record = &self._records[place]
            more = RECORD_BYTES + record.data_size + record.key_size
            if record.explicit_key != NULL:
                more += 10 + PyBytes_GET_SIZE(HEADER_NAME) + record.explicit_size
            if count and bound + more > most:
                break
            bound += more
            more = self._body_size(record, count)
            size += varint_size(more) + more
            count += 1
            place = record.following
        if size - LENGTH_BASE > 0x7FFFFFFF:
            raise ValueError("the batch is larger than 2 GiB")
        self._new_batch()
        cdef object batch = PyByteArray_FromStringAndSize(NULL, size)
        cdef uint8_t* start = <uint8_t*>PyByteArray_AS_STRING(batch)
        cdef uint8_t* p = start + HEADER_SIZE
        cdef int32_t delta = 0
        place = first
        while delta < count:
            record = &self._records[place]
            record.batch = <int32_t>number
            p = self._write(p, record, delta)
            delta += 1
            place = record.following
        if p != start + size:
            raise SystemError("a batch of another size than was counted")
        memset(start, 0, 8)
        put32(start + 8, <uint32_t>(size - LENGTH_BASE))
        put32(start + 12, 0xFFFFFFFF)
        start[16] = 2
        put16(start + 21, 0)
        put32(start + 23, <uint32_t>(count - 1))
        put64(start + 27, <uint64_t>now_ms)
        put64(start + 35, <uint64_t>now_ms)
        memset(start + 43, 0xFF, 14)
        put32(start + 57, <uint32_t>count)
        put32(start + 17, crc_of(0, start + CRC_START, size - CRC_START))
        found.append((number, shard, count, batch))
        return place

    cdef Py_ssize_t _body_size(self, Record* record, int32_t delta) noexcept nogil:
        cdef Py_ssize_t size = 2 + varint_size(delta) + varint_size(record.data_size) + record.data_size + 1
        if record.key == NULL:
            size += 1
        else:
            size += varint_size(record.key_size) + record.key_size
        if record.explicit_key != NULL:
            size += 1 + 25 + varint_size(record.explicit_size) + record.explicit_size
        return size

    cdef uint8_t* _write(self, uint8_t* p, Record* record, int32_t delta) noexcept nogil:
        p = put_varint(p, self._body_size(record, delta))
        p[0] = p[1] = 0  # attributes, timestamp
        p = put_varint(p + 2, delta)
        if record.key == NULL:
            p[0] = 1
            p += 1
        else:
            p = put_varint(p, record.key_size)
            memcpy(p, record.key, record.key_size)
            p += record.key_size
        p = put_varint(p, record.data_size)
        memcpy(p, record.data, record.data_size)
        p += record.data_size
        if record.explicit_key == NULL:
            p[0] = 0
            return p + 1
        p[0] = 2
        p[1] = 50
        memcpy(p + 2, <const char*>"kinesis.explicit-hash-key", 25)
        p = put_varint(p + 27, record.explicit_size)
        memcpy(p, record.explicit_key, record.explicit_size)
        return p + record.explicit_size

    cdef int _new_batch(self) except -1:
        cdef Outcome* outcomes
        if self._batch_count == self._batch_room:
            outcomes = <Outcome*>PyMem_Realloc(self._outcomes, (2 * self._batch_room + 4) * sizeof(Outcome))
            if outcomes == NULL:
                raise MemoryError()
            self._outcomes = outcomes
            self._batch_room = 2 * self._batch_room + 4
        memset(&self._outcomes[self._batch_count], 0, sizeof(Outcome))
        self._batch_count += 1
        return 0

    cdef int _check_number(self, Py_ssize_t number) except -1:
        if not 0 <= number < self._batch_count:
            raise IndexError("no such batch")
        return 0

    def stored(self, Py_ssize_t number, first, uint32_t index, int64_t base_offset):
        self._check_number(number)
        cdef bytes base = first.to_bytes(BASE_BYTES, "big")
        memcpy(self._outcomes[number].first, PyBytes_AS_STRING(base), BASE_BYTES)
        self._outcomes[number].index = index
        self._outcomes[number].base_offset = base_offset

    def fail(self, Py_ssize_t place, code, message):
        if not 0 <= place < self.count:
            raise IndexError("no such record")
        self._records[place].failed = True
        self.failed[place] = (code, message)

    def fail_batch(self, Py_ssize_t number, code, message):
        self._check_number(number)
        cdef Py_ssize_t place
        for place in range(self.count):
            if self._records[place].batch == number:
                self._records[place].failed = True
                self.failed[place] = (code, message)

    cdef int _begin_numbers(self) except -1:
        cdef Py_ssize_t number
        cdef Outcome* outcome
        for number in range(self._batch_count):
            outcome = &self._outcomes[number]
            number_of(&outcome.number, outcome.first, <uint64_t>(outcome.base_offset + 1))
        return 0

    def answer(self, int form, encryption):
        cdef Text out = Text.__new__(Text)
        cdef Py_ssize_t place
        cdef Record* record
        cdef Outcome* outcome
        cdef bint json = form == IN_JSON
        self._begin_numbers()
        if json:
            out.add(b"{" if encryption is None else f'{{"EncryptionType":"{encryption}",'.encode())
            out.add(b'"FailedRecordCount":%d,"Records":[' % len(self.failed))
        else:
            out.add(b"\xa2" if encryption is None else b"\xa3" + _text("EncryptionType") + _text(encryption))
            out.add(_text("FailedRecordCount") + head(0, len(self.failed)) + _text("Records") + head(4, self.count))
        for place in range(self.count):
            record = &self._records[place]
            if record.failed:
                if json and place:
                    out.add(b",")
                out.add(_failure(self.failed[place], form))
                continue
            if record.batch < 0:
                raise AssertionError("a record that is in no batch")
            outcome = &self._outcomes[record.batch]
            self._entry(out, outcome, json, place > 0)
            number_next(&outcome.number)
        if json:
            out.add(b"]}")
        return out.whole()

    def sole_answer(self, int form, encryption):
        cdef Text out = Text.__new__(Text)
        cdef bint json = form == IN_JSON
        if not self.count or self._records[0].failed or self._records[0].batch < 0:
            raise AssertionError("a record that was not stored")
        self._begin_numbers()
        self._entry(out, &self._outcomes[self._records[0].batch], json, False)
        entry = out.whole()
        if encryption is None:
            return entry
        if json:
            return f'{{"EncryptionType":"{encryption}",'.encode() + entry[1:]
        return b"\xa3" + _text("EncryptionType") + _text(encryption) + entry[1:]

    cdef int _entry(self, Text out, Outcome* outcome, bint json, bint comma) except -1:
        out.reserve(160)
        cdef uint8_t* p = out.data + out.size
        if json:
            if comma:
                p[0] = c","
                p += 1
            memcpy(p, <const char*>'{"SequenceNumber":"', 19)
            p = number_write(&outcome.number, p + 19)
            memcpy(p, <const char*>'","ShardId":"', 13)
            p = _write_shard(p + 13, outcome.index)
            memcpy(p, <const char*>'"}', 2)
            out.size = p + 2 - out.data
        else:
            memcpy(p, <const char*>"\xa2\x6eSequenceNumber", 16)
            p = number_write(&outcome.number, _write_head(p + 16, 3, number_size(&outcome.number)))
            memcpy(p, <const char*>"\x67ShardId\x74", 9)
            out.size = _write_shard(p + 9, outcome.index) - out.data
        return 0


cdef uint8_t* _write_shard(uint8_t* p, uint32_t index) noexcept nogil:
    cdef int digit
    memcpy(p, <const char*>"shardId-", 8)
    for digit in range(11, -1, -1):
        p[8 + digit] = <uint8_t>(c"0" + index % 10)
        index //= 10
    return p + 20


# RecordList ----------------------------------------------------------------------------------------------------------------


cdef class Text:
    """Bytes that grow, and become an object without being copied: `whole` may be asked for once."""

    cdef PyObject* held
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room

    def __dealloc__(self):
        Py_XDECREF(self.held)

    cdef int reserve(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t wanted = self.size + more
        if wanted > self.room:
            if wanted < self.room * 2:
                wanted = self.room * 2
            if wanted < 1024:
                wanted = 1024
            self._resize(wanted)
        return 0

    cdef int _resize(self, Py_ssize_t wanted) except -1:
        self.data = NULL
        if self.held == NULL:
            self.held = new_bytes(NULL, wanted)
        else:
            resize_bytes(&self.held, wanted)
        self.data = <uint8_t*>bytes_start(self.held)
        self.room = wanted
        return 0

    cdef int add(self, bytes more) except -1:
        self.reserve(PyBytes_GET_SIZE(more))
        memcpy(self.data + self.size, PyBytes_AS_STRING(more), PyBytes_GET_SIZE(more))
        self.size += PyBytes_GET_SIZE(more)
        return 0

    cdef bytes whole(self):
        self._resize(self.size)
        made = <bytes>self.held
        Py_XDECREF(self.held)
        self.held = NULL
        self.data = NULL
        self.size = self.room = 0
        return made


cdef struct Cursor:
    const uint8_t* data
    Py_ssize_t pos
    Py_ssize_t end
    bint failed


cdef inline int32_t read_varint(Cursor* c) noexcept nogil:
    cdef uint32_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 35:
        if c.pos >= c.end:
            break
        byte = c.data[c.pos]
        c.pos += 1
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return <int32_t>((value >> 1) ^ (<uint32_t>0 - (value & 1)))
        shift += 7
    c.failed = True
    return 0


cdef inline int64_t read_varlong(Cursor* c) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 70:
        if c.pos >= c.end:
            break
        byte = c.data[c.pos]
        c.pos += 1
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            return <int64_t>((value >> 1) ^ (<uint64_t>0 - (value & 1)))
        shift += 7
    c.failed = True
    return 0


cdef struct Found:
    int64_t timestamp_delta
    int32_t offset_delta
    const uint8_t* key
    int32_t key_size  # negative: none
    const uint8_t* value
    int32_t value_size


cdef inline const uint8_t* read_piece(Cursor* c, Py_ssize_t end, int32_t* size) noexcept nogil:
    cdef const uint8_t* piece
    size[0] = read_varint(c)
    if c.failed or size[0] < 0:
        return NULL
    if size[0] > end - c.pos:
        c.failed = True
        return NULL
    piece = c.data + c.pos
    c.pos += size[0]
    return piece


cdef bint read_record(Cursor* c, Found* found) noexcept nogil:
    """The next record; False if it is none."""
    cdef int32_t length = read_varint(c), headers, size
    cdef Py_ssize_t end
    if c.failed or length < 0 or length > c.end - c.pos:
        return False
    end = c.pos + length
    c.pos += 1  # attributes
    found.timestamp_delta = read_varlong(c)
    found.offset_delta = read_varint(c)
    if c.failed:
        return False
    found.key = read_piece(c, end, &found.key_size)
    if c.failed:
        return False
    found.value = read_piece(c, end, &found.value_size)
    if c.failed:
        return False
    headers = read_varint(c)
    if c.failed or headers < 0 or (headers and headers > end - c.pos):
        return False
    while headers:
        read_piece(c, end, &size)
        if c.failed or size < 0:
            return False
        read_piece(c, end, &size)
        if c.failed:
            return False
        headers -= 1
    return c.pos == end


cdef class RecordList:
    cdef Text _out
    cdef int _form
    cdef bytes _first
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _max_bytes
    cdef bytes _encryption
    cdef bint _keyless
    cdef int64_t _numbered  # the offset whose number `_number` is
    cdef hr_number _number
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size
    cdef readonly int64_t last_ms
    cdef public int64_t next_offset
    cdef readonly bint full

    def __cinit__(
        self, int form, first, Py_ssize_t limit, Py_ssize_t max_bytes, encryption, bint keyless
    ):
        self._out = Text.__new__(Text)
        self._form = form
        self._first = first.to_bytes(BASE_BYTES, "big")
        self._limit = limit
        self._max_bytes = max_bytes
        self._keyless = keyless
        self._encryption = b""
        self._numbered = -2
        if encryption is not None:
            self._encryption = (
                f',"EncryptionType":"{encryption}"'.encode() if form == IN_JSON else _text("EncryptionType") + _text(encryption)
            )
        self.last_ms = -1
        self.next_offset = -1
        self._out.reserve(8192)
        if form == IN_JSON:
            self._out.add(b'{"Records":[')
        else:
            self._out.add(b"\xa1" + _text("Records") + b"\x9a\0\0\0\0")

    def take(self, data, Py_ssize_t position, int64_t start, int64_t end):
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if position < 0:
                raise ValueError("a negative position")
            return self._take(<const uint8_t*>view.buf, view.len, position, start, end)
        finally:
            PyBuffer_Release(&view)

    cdef Py_ssize_t _take(self, const uint8_t* p, Py_ssize_t size, Py_ssize_t position, int64_t start, int64_t end) except -1:
        cdef const uint8_t* batch
        cdef int32_t length, last_delta, count
        cdef int64_t base
        cdef int attributes
        while not self.full and size - position >= HEADER_SIZE:
            batch = p + position
            base = <int64_t>get64(batch)
            length = <int32_t>get32(batch + 8)
            last_delta = <int32_t>get32(batch + 23)
            count = <int32_t>get32(batch + 57)
            if batch[16] != 2 or length < HEADER_SIZE - LENGTH_BASE or last_delta < 0 or count < 0:
                break
            if length > size - position - LENGTH_BASE or base >= end:
                break
            if base + last_delta >= start:
                attributes = batch[22]
                if attributes & (COMPRESSION | TRANSACTIONAL) and not attributes & CONTROL:
                    break
                if not attributes & CONTROL:
                    if not self._take_sound(
                        batch + HEADER_SIZE, length + LENGTH_BASE - HEADER_SIZE, count, base, <int64_t>get64(batch + 27),
                        <int64_t>get64(batch + 35) if attributes & APPEND_TIME else -1, start, end,
                    ):
                        break
                if not self.full and base + last_delta + 1 > self.next_offset:
                    self.next_offset = base + last_delta + 1
            if not self.full:
                position += LENGTH_BASE + length
        return position

    def take_records(
        self, payload, int64_t count, int64_t base_offset, int64_t base_ms, int64_t append_ms, int64_t start, int64_t end
    ):
        cdef Py_buffer view
        cdef bint sound
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            sound = self._take_sound(<const uint8_t*>view.buf, view.len, count, base_offset, base_ms, append_ms, start, end)
        finally:
            PyBuffer_Release(&view)
        if not sound:
            raise CorruptBatch("malformed record")

    cdef int _take_sound(
        self, const uint8_t* p, Py_ssize_t size, int64_t count, int64_t base_offset, int64_t base_ms, int64_t append_ms,
        int64_t start, int64_t end,
    ) except -1:
        """False: it is not."""
        cdef Cursor cursor
        cdef Found found
        cdef int64_t number, offset, when
        cdef Py_ssize_t taken
        if count == 0:
            return True
        if count < 0 or count > size // SMALLEST_RECORD:
            return False
        cursor.data, cursor.pos, cursor.end, cursor.failed = p, 0, size, False
        for number in range(count):
            if not read_record(&cursor, &found):
                return False
        if cursor.pos != size:
            return False
        cursor.pos = 0
        # about what all of it will take, or all that may still be taken: rather once than by doubling
        taken = size if size < self._max_bytes - self.size else self._max_bytes - self.size
        if taken > 0:
            self._out.reserve(taken // 3 * 4 + 160 * (count if count < self._limit - self.count else self._limit - self.count))
        for number in range(count):
            read_record(&cursor, &found)
            offset = <int64_t>(<uint64_t>base_offset + <uint64_t><int64_t>found.offset_delta)
            if offset < start or offset >= end:
                continue
            taken = (found.key_size if found.key_size > 0 else 0) + (found.value_size if found.value_size > 0 else 0)
            if self.count >= self._limit or (self.count and self.size + taken > self._max_bytes):
                self.full = True
                self.next_offset = offset
                return True
            when = append_ms if append_ms >= 0 else <int64_t>(<uint64_t>base_ms + <uint64_t>found.timestamp_delta)
            self.last_ms = 0 if when < 0 else LAST_MS if when > LAST_MS else when
            self._record(offset, &found)
            self.count += 1
            self.size += taken
            self.next_offset = offset + 1
        return True

    cdef int _record(self, int64_t offset, Found* found) except -1:
        cdef Text out = self._out
        cdef Py_ssize_t value_size = found.value_size if found.value_size > 0 else 0
        cdef Py_ssize_t key_size = found.key_size if found.key_size > 0 else 0
        cdef Py_ssize_t members, made
        cdef uint8_t* p
        cdef bytes shown = None
        if found.key_size < 0:
            shown = None if self._keyless else b"-"
        elif not _is_ascii(found.key, key_size) and not _is_utf8(found.key, key_size):
            shown = b"base64:" + b64encode(PyBytes_FromStringAndSize(<const char*>found.key, key_size))
        if shown is not None:
            found.key = <const uint8_t*>PyBytes_AS_STRING(shown)
            key_size = found.key_size = <int32_t>PyBytes_GET_SIZE(shown)
        # the longest forms: six for a byte of the key, four for three of the value, all that stands around them
        out.reserve(6 * key_size + 4 * (value_size // 3 + 1) + PyBytes_GET_SIZE(self._encryption) + 320 + SLACK)
        if offset == self._numbered + 1:
            number_next(&self._number)
        else:
            number_of(&self._number, <const uint8_t*>PyBytes_AS_STRING(self._first), <uint64_t>(offset + 1))
        self._numbered = offset
        p = out.data + out.size
        if self._form == IN_JSON:
            if self.count:
                p[0] = c","
                p += 1
            memcpy(p, <const char*>'{"ApproximateArrivalTimestamp":', 31)
            p = write_decimal(p + 31, <uint64_t>self.last_ms // 1000)
            p[0] = c"."
            made = <Py_ssize_t>(self.last_ms % 1000)
            p[1], p[2], p[3] = <uint8_t>(48 + made // 100), <uint8_t>(48 + made // 10 % 10), <uint8_t>(48 + made % 10)
            memcpy(p + 4, <const char*>',"Data":"', 9)
            p += 13
            p += encode64(found.value, value_size, p)
            p[0] = c'"'
            p += 1
            if found.key_size >= 0:
                memcpy(p, <const char*>',"PartitionKey":"', 17)
                p = _write_escaped(p + 17, found.key, key_size)
                p[0] = c'"'
                p += 1
            memcpy(p, <const char*>',"SequenceNumber":"', 19)
            p = number_write(&self._number, p + 19)
            p[0] = c'"'
            p += 1
            memcpy(p, PyBytes_AS_STRING(self._encryption), PyBytes_GET_SIZE(self._encryption))
            p += PyBytes_GET_SIZE(self._encryption)
            p[0] = c"}"
            p += 1
        else:
            members = 3 + (found.key_size >= 0) + (PyBytes_GET_SIZE(self._encryption) > 0)
            p[0] = <uint8_t>(0xA0 | members)
            memcpy(p + 1, <const char*>"\x78\x1bApproximateArrivalTimestamp\xc1", 30)
            p += 31
            if self._form == IN_RPC:
                p[0] = 0xFB
                _put_double(p + 1, <double>self.last_ms / 1000)
                p += 9
            else:
                p = _write_head(p, 0, <uint64_t>self.last_ms)
            memcpy(p, <const char*>"\x64Data", 5)
            p = _write_head(p + 5, 2, value_size)
            memcpy(p, found.value if value_size else <const uint8_t*>"", value_size)
            p += value_size
            if found.key_size >= 0:
                memcpy(p, <const char*>"\x6cPartitionKey", 13)
                p = _write_head(p + 13, 3, key_size)
                memcpy(p, found.key if key_size else <const uint8_t*>"", key_size)
                p += key_size
            memcpy(p, <const char*>"\x6eSequenceNumber", 15)
            p = number_write(&self._number, _write_head(p + 15, 3, number_size(&self._number)))
            memcpy(p, PyBytes_AS_STRING(self._encryption), PyBytes_GET_SIZE(self._encryption))
            p += PyBytes_GET_SIZE(self._encryption)
        out.size = p - out.data
        return 0

    def body(self, bytes tail, int members):
        cdef Text out = self._out
        if not out.size:
            raise RuntimeError("the records were given away")
        if self._form == IN_JSON:
            out.add(b"]")
            out.add(tail)
            out.add(b"}")
        else:
            out.data[0] = <uint8_t>(0xA1 + members)
            put32(out.data + 10, <uint32_t>self.count)
            out.add(tail)
        self.full = True
        return out.whole()


cdef inline bint _is_ascii(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t at
    cdef uint8_t seen = 0
    for at in range(size):
        seen |= p[at]
    return seen < 0x80


cdef bint _is_utf8(const uint8_t* p, Py_ssize_t size):
    try:
        PyUnicode_DecodeUTF8(<const char*>p, size, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef uint8_t* _write_escaped(uint8_t* out, const uint8_t* p, Py_ssize_t size) noexcept nogil:
    """As the standard library does: six bytes for one at most."""
    cdef Py_ssize_t at
    cdef uint8_t byte, short
    for at in range(size):
        byte = p[at]
        if byte >= 0x20 and byte != 0x22 and byte != 0x5C:
            out[0] = byte
            out += 1
            continue
        short = 0
        if byte == 0x22 or byte == 0x5C:
            short = byte
        elif byte == 8:
            short = c"b"
        elif byte == 9:
            short = c"t"
        elif byte == 10:
            short = c"n"
        elif byte == 12:
            short = c"f"
        elif byte == 13:
            short = c"r"
        out[0] = c"\\"
        if short:
            out[1] = short
            out += 2
        else:
            out[1] = c"u"
            out[2] = out[3] = c"0"
            out[4] = <uint8_t>(c"0" + (byte >> 4))
            out[5] = <uint8_t>(c"0" + (byte & 15)) if byte & 15 < 10 else <uint8_t>(c"a" + (byte & 15) - 10)
            out += 6
    return out


cdef uint8_t* _write_head(uint8_t* p, int major, uint64_t number) noexcept nogil:
    cdef uint8_t kind = <uint8_t>(major << 5)
    if number < 24:
        p[0] = kind | <uint8_t>number
        return p + 1
    if number < 0x100:
        p[0] = kind | 24
        p[1] = <uint8_t>number
        return p + 2
    if number < 0x10000:
        p[0] = kind | 25
        put16(p + 1, <uint32_t>number)
        return p + 3
    if number >> 32 == 0:
        p[0] = kind | 26
        put32(p + 1, <uint32_t>number)
        return p + 5
    p[0] = kind | 27
    put64(p + 1, number)
    return p + 9


cdef inline void _put_double(uint8_t* p, double value) noexcept nogil:
    cdef uint64_t bits
    memcpy(&bits, &value, 8)
    put64(p, bits)


cdef bytes _text(str text):
    cdef bytes data = text.encode()
    return head(3, len(data)) + data


cdef bytes _failure(tuple why, int form):
    return encode({"ErrorCode": why[0], "ErrorMessage": why[1]}, ENCODINGS[form])


# scan ----------------------------------------------------------------------------------------------------------------------


cdef class Scanner:
    """A body of the usual form. Every reader returns False at what is not usual."""

    cdef const uint8_t* p
    cdef const uint8_t* end
    cdef uint8_t* decoded
    cdef Puts puts
    cdef bint sole
    cdef const uint8_t* data
    cdef Py_ssize_t data_size
    cdef const uint8_t* key
    cdef Py_ssize_t key_size
    cdef const uint8_t* explicit_key
    cdef Py_ssize_t explicit_size
    cdef uint64_t high, low
    cdef Py_ssize_t room

    cdef inline void clear(self) noexcept:
        self.data = NULL
        self.key = NULL
        self.key_size = 0
        self.explicit_key = NULL
        self.explicit_size = 0

    cdef bint add(self) except? False:
        """What was read of a record becomes the next one."""
        cdef Py_ssize_t place = self.puts.count
        if self.data == NULL or place >= self.room:
            return False
        self.puts._set(place, self.data, self.data_size, self.key, self.key_size, self.explicit_key, self.explicit_size)
        if self.explicit_key != NULL:
            self.puts._records[place].high, self.puts._records[place].low = self.high, self.low
        self.clear()
        return True

    cdef bint set_key(self, const uint8_t* text, Py_ssize_t size) except? False:
        if self.key != NULL or not 0 < size <= LONGEST_KEY:
            return False
        if not _is_ascii(text, size) and not _is_utf8(text, size):
            return False
        self.key, self.key_size = text, size
        return True

    cdef bint set_explicit(self, const uint8_t* text, Py_ssize_t size) noexcept:
        if self.explicit_key != NULL or not parse_hash(text, size, &self.high, &self.low):
            return False
        self.explicit_key, self.explicit_size = text, size
        return True

    cdef bint set_stream(self, const uint8_t* text, Py_ssize_t size, bint arn) except? False:
        cdef Py_ssize_t at
        if arn:
            if self.puts.stream_arn is not None or not 0 < size <= 2048 or not _is_ascii(text, size):
                return False
            self.puts.stream_arn = PyBytes_FromStringAndSize(<const char*>text, size).decode()
            return ARN.fullmatch(self.puts.stream_arn) is not None
        if self.puts.stream_name is not None or not 0 < size <= 128:
            return False
        for at in range(size):
            if not (
                c"a" <= text[at] <= c"z" or c"A" <= text[at] <= c"Z" or c"0" <= text[at] <= c"9"
                or text[at] == c"_" or text[at] == c"." or text[at] == c"-"
            ):
                return False
        self.puts.stream_name = PyBytes_FromStringAndSize(<const char*>text, size).decode()
        return True

    # JSON

    cdef inline void skip(self) noexcept:
        while self.p < self.end and (self.p[0] == 32 or self.p[0] == 10 or self.p[0] == 13 or self.p[0] == 9):
            self.p += 1

    cdef inline bint expect(self, uint8_t byte) noexcept:
        self.skip()
        if self.p >= self.end or self.p[0] != byte:
            return False
        self.p += 1
        return True

    cdef bint text(self, const uint8_t** start, Py_ssize_t* size) noexcept:
        """A string without escapes."""
        if not self.expect(0x22):
            return False
        start[0] = self.p
        while self.p < self.end and self.p[0] != 0x22:
            if self.p[0] < 0x20 or self.p[0] == 0x5C:
                return False
            self.p += 1
        if self.p >= self.end:
            return False
        size[0] = self.p - start[0]
        self.p += 1
        return True

    cdef bint base64(self) noexcept:
        cdef const uint8_t* closing
        cdef Py_ssize_t size
        if self.data != NULL or not self.expect(0x22):
            return False
        closing = <const uint8_t*>memchr(self.p, 0x22, self.end - self.p)
        if closing == NULL:
            return False
        size = decode64(self.p, closing - self.p, self.decoded)
        if size < 0 or size > MOST_DATA:
            return False
        self.data, self.data_size = self.decoded, size
        self.decoded += size
        self.p = closing + 1
        return True

    cdef bint record_member(self, const uint8_t* name, Py_ssize_t size) except? False:
        cdef const uint8_t* text
        cdef Py_ssize_t length
        if size == 4 and memcmp(name, <const char*>"Data", 4) == 0:
            return self.base64()
        if size == 12 and memcmp(name, <const char*>"PartitionKey", 12) == 0:
            return self.text(&text, &length) and self.set_key(text, length)
        if size == 15 and memcmp(name, <const char*>"ExplicitHashKey", 15) == 0:
            return self.text(&text, &length) and self.set_explicit(text, length)
        return False

    cdef bint json_record(self) except? False:
        cdef const uint8_t* name
        cdef Py_ssize_t size
        if not self.expect(c"{"):
            return False
        while True:
            if not self.text(&name, &size) or not self.expect(c":") or not self.record_member(name, size):
                return False
            self.skip()
            if self.p >= self.end:
                return False
            if self.p[0] == c"}":
                self.p += 1
                return self.add()
            if not self.expect(c","):
                return False

    cdef bint json_records(self) except? False:
        if self.puts.count or not self.expect(c"["):
            return False
        while True:
            if not self.json_record():
                return False
            self.skip()
            if self.p >= self.end:
                return False
            if self.p[0] == c"]":
                self.p += 1
                return True
            if not self.expect(c","):
                return False

    cdef bint json(self) except? False:
        cdef const uint8_t* name
        cdef const uint8_t* text
        cdef Py_ssize_t size, length
        if not self.expect(c"{"):
            return False
        while True:
            if not self.text(&name, &size) or not self.expect(c":"):
                return False
            if size == 10 and memcmp(name, <const char*>"StreamName", 10) == 0:
                if not self.text(&text, &length) or not self.set_stream(text, length, False):
                    return False
            elif size == 9 and memcmp(name, <const char*>"StreamARN", 9) == 0:
                if not self.text(&text, &length) or not self.set_stream(text, length, True):
                    return False
            elif self.sole:
                if not self.record_member(name, size):
                    return False
            elif size == 7 and memcmp(name, <const char*>"Records", 7) == 0:
                if not self.json_records():
                    return False
            else:
                return False
            self.skip()
            if self.p >= self.end:
                return False
            if self.p[0] == c"}":
                self.p += 1
                self.skip()
                return self.p == self.end and (not self.sole or self.add())
            if not self.expect(c","):
                return False

    # CBOR

    cdef bint item(self, int major, Py_ssize_t* number) noexcept:
        """The head of an item of this kind: its length, -1 if that is indefinite."""
        cdef int extra
        cdef uint64_t value
        cdef Py_ssize_t size
        if self.p >= self.end or self.p[0] >> 5 != major:
            return False
        extra = self.p[0] & 31
        self.p += 1
        if extra < 24:
            number[0] = extra
            return True
        if extra == 31:
            number[0] = -1
            return major >= 4
        if extra > 27:
            return False
        size = 1 << (extra - 24)
        if self.end - self.p < size:
            return False
        value = 0
        while size:
            value = value << 8 | self.p[0]
            self.p += 1
            size -= 1
        if value > <uint64_t>(self.end - self.p):  # of bytes, or of items that have one each
            return False
        number[0] = <Py_ssize_t>value
        return True

    cdef bint piece(self, int major, const uint8_t** start, Py_ssize_t* size) noexcept:
        if not self.item(major, size) or size[0] < 0 or size[0] > self.end - self.p:
            return False
        start[0] = self.p
        self.p += size[0]
        return True

    cdef inline bint more(self, Py_ssize_t* left) noexcept:
        """Whether a list or a map goes on."""
        if left[0] < 0:
            if self.p < self.end and self.p[0] == 0xFF:
                self.p += 1
                return False
            return True
        left[0] -= 1
        return left[0] >= 0

    cdef bint cbor_member(self, const uint8_t* name, Py_ssize_t size) except? False:
        cdef const uint8_t* text
        cdef Py_ssize_t length
        if size == 4 and memcmp(name, <const char*>"Data", 4) == 0:
            if self.data != NULL or not self.piece(2, &text, &length) or length > MOST_DATA:
                return False
            self.data, self.data_size = text, length
            return True
        if size == 12 and memcmp(name, <const char*>"PartitionKey", 12) == 0:
            return self.piece(3, &text, &length) and self.set_key(text, length)
        if size == 15 and memcmp(name, <const char*>"ExplicitHashKey", 15) == 0:
            return self.piece(3, &text, &length) and self.set_explicit(text, length)
        return False

    cdef bint cbor_records(self) except? False:
        cdef Py_ssize_t left, members, size
        cdef const uint8_t* name
        if self.puts.count or not self.item(4, &left):
            return False
        while self.more(&left):
            if not self.item(5, &members):
                return False
            while self.more(&members):
                if not self.piece(3, &name, &size) or not self.cbor_member(name, size):
                    return False
            if not self.add():
                return False
        return True

    cdef bint cbor(self) except? False:
        cdef Py_ssize_t members, size, length
        cdef const uint8_t* name
        cdef const uint8_t* text
        if not self.item(5, &members):
            return False
        while self.more(&members):
            if not self.piece(3, &name, &size):
                return False
            if size == 10 and memcmp(name, <const char*>"StreamName", 10) == 0:
                if not self.piece(3, &text, &length) or not self.set_stream(text, length, False):
                    return False
            elif size == 9 and memcmp(name, <const char*>"StreamARN", 9) == 0:
                if not self.piece(3, &text, &length) or not self.set_stream(text, length, True):
                    return False
            elif self.sole:
                if not self.cbor_member(name, size):
                    return False
            elif size == 7 and memcmp(name, <const char*>"Records", 7) == 0:
                if not self.cbor_records():
                    return False
            else:
                return False
        return self.p == self.end and (not self.sole or self.add())


def use_vectors(bint use):
    """Whether base64 uses the processor's vectors, so that tests can reach the other way on any machine. Returns what it did."""
    global vectors
    before, vectors = vectors, use
    return bool(before)


def scan(bytes body, int form, bint sole):
    cdef Puts puts = Puts.__new__(Puts)
    cdef Scanner scanner = Scanner.__new__(Scanner)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(body)
    puts._owner = body
    scanner.room = 1 if sole else MOST_RECORDS
    puts._make_room(scanner.room)
    scanner.puts = puts
    scanner.sole = sole
    scanner.p = <const uint8_t*>PyBytes_AS_STRING(body)
    scanner.end = scanner.p + size
    if form == IN_JSON:
        puts._decoded = <uint8_t*>PyMem_Malloc(size // 4 * 3 + SLACK)
        if puts._decoded == NULL:
            raise MemoryError()
        scanner.decoded = puts._decoded
        usual = scanner.json()
    else:
        usual = scanner.cbor()
    if not usual or not puts.count or (puts.stream_name is None and puts.stream_arn is None):
        return None
    return puts


import re  # noqa: E402
from base64 import b64encode  # noqa: E402

from headrace.kinesis.codec.bodies import encode  # noqa: E402
from headrace.kinesis.codec.cbor import head  # noqa: E402
from headrace.kinesis.codec.encoding import Encoding  # noqa: E402
from headrace.record.errors import CorruptBatch  # noqa: E402

ENCODINGS = (Encoding.JSON, Encoding.CBOR, Encoding.RPC)
ARN = re.compile(r"arn:aws[a-z-]*:kinesis:[a-z0-9-]*:\d{12}:stream/[a-zA-Z0-9_.-]+", re.ASCII)
