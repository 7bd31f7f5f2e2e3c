# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The compiled twin of `headrace.log.embedded.offset_map`: the same class, the same answers, the same exceptions.

Docstrings and the why are over there; here is only how. Both walks, the one that fills the map and the one that filters, run over
many batches in one call and without the interpreter's lock, so that compaction never makes the event loop wait for it. Every
few hundred records they offer their processor to whoever is woken there: a kernel that is not preemptive lets a thread compute
until its next tick, and a sync that has to wait for that takes 4 ms in place of 0.1.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy

cdef extern from "sched.h" nogil:
    int sched_yield()

cdef extern from "native.h":
    uint16_t get16 "hr_get16"(const uint8_t* p) noexcept nogil
    uint32_t get32 "hr_get32"(const uint8_t* p) noexcept nogil
    uint64_t get64 "hr_get64"(const uint8_t* p) noexcept nogil
    void put16 "hr_put16"(uint8_t* p, uint16_t v) noexcept nogil
    void put32 "hr_put32"(uint8_t* p, uint32_t v) noexcept nogil
    void put64 "hr_put64"(uint8_t* p, uint64_t v) noexcept nogil
    void native_init "hr_init"() noexcept nogil
    uint32_t crc32c "hr_crc32c"(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #if defined(__GNUC__) || defined(__clang__)
    #define HC_PREFETCH(p) __builtin_prefetch(p)
    #else
    #define HC_PREFETCH(p) ((void)(p))
    #endif

    /* SipHash-2-4 with 128 bits: keyed, so that nobody can choose two keys that are taken for one. */
    #define HC_ROTATE(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
    #define HC_ROUND \
        v0 += v1; v1 = HC_ROTATE(v1, 13); v1 ^= v0; v0 = HC_ROTATE(v0, 32); \
        v2 += v3; v3 = HC_ROTATE(v3, 16); v3 ^= v2; \
        v0 += v3; v3 = HC_ROTATE(v3, 21); v3 ^= v0; \
        v2 += v1; v1 = HC_ROTATE(v1, 17); v1 ^= v2; v2 = HC_ROTATE(v2, 32);

    static void hc_siphash(const uint8_t *p, size_t n, uint64_t k0, uint64_t k1, uint64_t *one, uint64_t *two) {
        uint64_t v0 = 0x736f6d6570736575ULL ^ k0, v1 = 0x646f72616e646f6dULL ^ k1 ^ 0xee;
        uint64_t v2 = 0x6c7967656e657261ULL ^ k0, v3 = 0x7465646279746573ULL ^ k1;
        uint64_t last = (uint64_t)n << 56, m;
        size_t rest = n & 7;
        for (const uint8_t *end = p + (n - rest); p < end; p += 8) {
            m = 0;
            for (int i = 7; i >= 0; i--) m = (m << 8) | p[i];
            v3 ^= m; HC_ROUND HC_ROUND v0 ^= m;
        }
        for (size_t i = 0; i < rest; i++) last |= (uint64_t)p[i] << (8 * i);
        v3 ^= last; HC_ROUND HC_ROUND v0 ^= last;
        v2 ^= 0xee; HC_ROUND HC_ROUND HC_ROUND HC_ROUND
        *one = v0 ^ v1 ^ v2 ^ v3;
        v1 ^= 0xdd; HC_ROUND HC_ROUND HC_ROUND HC_ROUND
        *two = v0 ^ v1 ^ v2 ^ v3;
    }
    """
    void prefetch "HC_PREFETCH"(const void* p) noexcept nogil
    void siphash "hc_siphash"(const uint8_t* p, size_t n, uint64_t k0, uint64_t k1, uint64_t* one, uint64_t* two) noexcept nogil

native_init()

cdef enum:
    HEADER_SIZE = 61
    LENGTH_BASE = 12
    CRC_START = 21
    LOG_APPEND_TIME = 0x08
    NOT_PLAIN = 0x37  # compressed, transactional or control
    COMPRESSION = 0x07
    HORIZON = 0x40
    YIELD_EVERY = 256  # records, some 30 µs
    AHEAD = 16  # records whose slots are fetched together: the table is larger than any cache, and memory takes its time

    OK = 0
    FULL = 1
    CORRUPT = -1
    NO_MEMORY = -2


cdef struct Slot:
    uint64_t one
    uint64_t two
    uint64_t offset  # one more than it is; 0 is an empty slot


cdef struct Record:
    const uint8_t* start
    const uint8_t* rest  # behind the timestamp delta
    const uint8_t* end
    int64_t timestamp_delta
    int64_t offset_delta
    const uint8_t* key
    int64_t key_size  # -1: none
    int64_t value_size
    uint64_t one  # of the key's hash
    uint64_t two


cdef struct Out:
    uint8_t* data
    size_t size
    size_t room


cdef struct Kept:
    int64_t records
    int64_t max_timestamp
    bint dropped
    bint tombstones


cdef inline int varint(const uint8_t** p, const uint8_t* end, int64_t* value) noexcept nogil:
    """At most ten bytes; -1 when it is cut short or longer."""
    cdef uint64_t raw = 0
    cdef int shift = 0
    cdef const uint8_t* at = p[0]
    cdef uint8_t byte
    while True:
        if at >= end or shift > 63:
            return -1
        byte = at[0]
        at += 1
        raw |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    p[0] = at
    return 0


cdef inline size_t put_varint(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef size_t size = 0
    while raw >= 0x80:
        p[size] = <uint8_t>(raw | 0x80)
        raw >>= 7
        size += 1
    p[size] = <uint8_t>raw
    return size + 1


cdef int next_record(const uint8_t** p, const uint8_t* end, Record* record) noexcept nogil:
    cdef int64_t length
    cdef const uint8_t* at = p[0]
    record.start = at
    if varint(&at, end, &length) < 0 or length < 1 or length > end - at:
        return -1
    record.end = at + length
    at += 1  # attributes: no bit is in use
    if varint(&at, record.end, &record.timestamp_delta) < 0:
        return -1
    record.rest = at
    if varint(&at, record.end, &record.offset_delta) < 0 or varint(&at, record.end, &record.key_size) < 0:
        return -1
    record.key = at
    if record.key_size > record.end - at or record.key_size < -1:
        return -1
    if record.key_size > 0:
        at += record.key_size
    if varint(&at, record.end, &record.value_size) < 0:
        return -1
    if record.value_size > record.end - at or record.value_size < -1:
        return -1
    p[0] = record.end
    return 0


cdef int need(Out* out, size_t more) noexcept nogil:
    cdef size_t room
    cdef uint8_t* data
    if out.room - out.size >= more:
        return 0
    room = out.room * 2
    if room < out.size + more:
        room = out.size + more
    data = <uint8_t*>realloc(out.data, room)
    if data == NULL:
        return NO_MEMORY
    out.data = data
    out.room = room
    return 0


cdef int put(Out* out, const void* data, size_t size) noexcept nogil:
    if need(out, size) < 0:
        return NO_MEMORY
    memcpy(out.data + out.size, data, size)
    out.size += size
    return 0


cdef int put_moved(Out* out, const Record* record, int64_t timestamp_delta) noexcept nogil:
    """The record with another timestamp delta; its length changes with it."""
    cdef uint8_t[10] delta
    cdef size_t delta_size = put_varint(delta, timestamp_delta)
    cdef size_t rest = record.end - record.rest
    cdef uint8_t* p
    if need(out, 11 + delta_size + rest) < 0:
        return NO_MEMORY
    p = out.data + out.size
    p += put_varint(p, <int64_t>(1 + delta_size + rest))
    p[0] = 0
    p += 1
    memcpy(p, delta, delta_size)
    p += delta_size
    memcpy(p, record.rest, rest)
    out.size = (p - out.data) + rest
    return 0


cdef bint has(const int64_t* sorted_, Py_ssize_t count, int64_t wanted) noexcept nogil:
    cdef Py_ssize_t low = 0, high = count, middle
    while low < high:
        middle = (low + high) // 2
        if sorted_[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < count and sorted_[low] == wanted


cdef Py_ssize_t whole_plain(const uint8_t* p, Py_ssize_t left) noexcept nogil:
    """The size of the batch at `p`; 0 when it is not whole or not plain, -1 when it is damaged."""
    cdef int32_t length
    cdef Py_ssize_t size
    if left < HEADER_SIZE:
        return 0
    length = <int32_t>get32(p + 8)
    if p[16] != 2 or length < HEADER_SIZE - LENGTH_BASE:
        return -1
    size = <Py_ssize_t>length + LENGTH_BASE
    if size > left:
        return 0
    if crc32c(0, p + CRC_START, size - CRC_START) != get32(p + 17):
        return -1
    return 0 if get16(p + 21) & NOT_PLAIN else size


cdef class OffsetMap:
    cdef Slot* table
    cdef uint64_t k0, k1
    cdef readonly int64_t slots, limit, entries
    cdef public int64_t latest
    cdef int until_yield

    BYTES_PER_SLOT = sizeof(Slot)

    def __cinit__(self, int64_t slots, int64_t limit, bytes seed):
        if slots < 1 or not 0 < limit <= slots or len(seed) != 16:
            raise ValueError("an offset map needs a slot, a limit of at least one and a seed of 16 bytes")
        self.table = <Slot*>calloc(slots, sizeof(Slot))
        if self.table == NULL:
            raise MemoryError
        self.slots, self.limit, self.entries, self.latest = slots, limit, 0, -1
        self.k0, self.k1 = get64(seed), get64(<const uint8_t*>seed + 8)

    def __dealloc__(self):
        free(self.table)

    cdef Slot* find(self, uint64_t one, uint64_t two) noexcept nogil:
        """The slot of the key with this hash, or the empty one where it would go; NULL when there is neither."""
        cdef Slot* slot
        cdef int64_t place = <int64_t>(one % <uint64_t>self.slots), left = self.slots
        while left > 0:
            slot = self.table + place
            if slot.offset == 0 or (slot.one == one and slot.two == two):
                return slot
            place += 1
            if place == self.slots:
                place = 0
            left -= 1
        return NULL

    cdef int look_ahead(self, const uint8_t** p, const uint8_t* end, int64_t count, Record* records) noexcept nogil:
        """The next few records, their keys hashed and their slots on the way; how many, or CORRUPT."""
        cdef int found = 0
        if self.until_yield <= 0:
            self.until_yield = YIELD_EVERY
            sched_yield()
        self.until_yield -= AHEAD
        while found < AHEAD and found < count:
            if next_record(p, end, records + found) < 0:
                return CORRUPT
            if records[found].key_size >= 0:
                siphash(
                    records[found].key, records[found].key_size, self.k0, self.k1, &records[found].one, &records[found].two
                )
                prefetch(self.table + records[found].one % <uint64_t>self.slots)
            found += 1
        return found

    cdef int note(self, const uint8_t* p, const uint8_t* end, int64_t count, int64_t base, int64_t start) noexcept nogil:
        cdef Record[AHEAD] records
        cdef Slot* slot
        cdef int64_t offset
        cdef int number, found
        while count > 0:
            found = self.look_ahead(&p, end, count, records)
            if found < 0:
                return CORRUPT
            count -= found
            for number in range(found):
                offset = base + records[number].offset_delta
                if records[number].key_size < 0 or offset < start:
                    continue
                slot = self.find(records[number].one, records[number].two)
                if slot == NULL:
                    return FULL
                if slot.offset == 0:
                    if self.entries >= self.limit:
                        return FULL
                    slot.one, slot.two = records[number].one, records[number].two
                    self.entries += 1
                if slot.offset < <uint64_t>(offset + 1):
                    slot.offset = <uint64_t>(offset + 1)
        return OK if p == end else CORRUPT

    def get(self, bytes key not None):
        cdef uint64_t one, two
        cdef Slot* slot
        siphash(key, len(key), self.k0, self.k1, &one, &two)
        slot = self.find(one, two)
        return <int64_t>slot.offset - 1 if slot != NULL else -1

    def add_batches(self, data, Py_ssize_t position, int64_t start_offset):
        cdef Py_buffer view
        cdef const uint8_t* p
        cdef Py_ssize_t size = 0
        cdef int outcome = OK
        cdef int64_t last
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if not 0 <= position <= view.len:
                raise CorruptBatch("the range is outside the buffer")
            with nogil:
                while True:
                    p = <const uint8_t*>view.buf + position
                    size = whole_plain(p, view.len - position)
                    if size <= 0:
                        break
                    last = <int64_t>get64(p) + <int32_t>get32(p + 23)
                    if last >= start_offset:
                        outcome = self.note(
                            p + HEADER_SIZE, p + size, <int32_t>get32(p + 57), <int64_t>get64(p), start_offset
                        )
                        if outcome != OK:
                            break
                        if last > self.latest:
                            self.latest = last
                    position += size
        finally:
            PyBuffer_Release(&view)
        if size < 0 or outcome == CORRUPT:
            raise CorruptBatch(f"a damaged batch at byte {position}")
        return position, outcome == FULL

    def add_records(self, payload, int64_t count, int64_t base_offset, int64_t start_offset):
        cdef Py_buffer view
        cdef int outcome
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        with nogil:
            outcome = self.note(
                <const uint8_t*>view.buf, <const uint8_t*>view.buf + view.len, count, base_offset, start_offset
            )
        PyBuffer_Release(&view)
        if outcome == CORRUPT:
            raise CorruptBatch("records that can't be read")
        return outcome == FULL

    cdef int copy_kept(
        self, const uint8_t* p, const uint8_t* end, int64_t count, int64_t base_offset, int64_t base_timestamp,
        bint tombstones_go, bint moved, int64_t new_base_timestamp, Out* out, Kept* kept,
    ) noexcept nogil:
        """Appends the records that stay; with `moved`, relative to another base timestamp."""
        cdef Record[AHEAD] records
        cdef Record* record
        cdef Slot* slot
        cdef const uint8_t* from_ = p  # what stays side by side is copied at once
        cdef int64_t offset, timestamp
        cdef int number, found
        cdef bint stays
        kept.records, kept.max_timestamp, kept.dropped, kept.tombstones = 0, -1, False, False
        while count > 0:
            found = self.look_ahead(&p, end, count, records)
            if found < 0:
                return CORRUPT
            count -= found
            for number in range(found):
                record = records + number
                offset = base_offset + record.offset_delta
                if offset > self.latest:
                    stays = True
                elif record.key_size < 0:
                    stays = False
                else:
                    slot = self.find(record.one, record.two)
                    stays = slot == NULL or slot.offset <= <uint64_t>(offset + 1)
                    if record.value_size < 0 and tombstones_go:
                        stays = False
                if not stays:
                    kept.dropped = True
                    if not moved and put(out, from_, record.start - from_) < 0:
                        return NO_MEMORY
                    from_ = record.end
                    continue
                kept.records += 1
                if record.value_size < 0:
                    kept.tombstones = True
                timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>record.timestamp_delta)
                if timestamp > kept.max_timestamp:
                    kept.max_timestamp = timestamp
                if moved and put_moved(out, record, <int64_t>(<uint64_t>timestamp - <uint64_t>new_base_timestamp)) < 0:
                    return NO_MEMORY
        if p != end:
            return CORRUPT
        if not moved and put(out, from_, end - from_) < 0:
            return NO_MEMORY
        return OK

    cdef int filter_one(
        self, const uint8_t* p, Py_ssize_t size, int64_t now_ms, int64_t new_horizon_ms, bint keep_empty, Out* out
    ) noexcept nogil:
        """Appends what stays of one plain batch."""
        cdef uint16_t attributes = get16(p + 21)
        cdef int64_t base = <int64_t>get64(p), base_timestamp = <int64_t>get64(p + 27), count = <int32_t>get32(p + 57)
        cdef int64_t last = base + <int32_t>get32(p + 23)
        cdef bint has_horizon = (attributes & HORIZON) != 0, moved = False
        cdef size_t begin = out.size
        cdef Kept kept
        cdef int outcome
        cdef uint8_t* header
        if count == 0:  # emptied before
            return put(out, p, HEADER_SIZE) if keep_empty else OK
        while True:
            if put(out, p, HEADER_SIZE) < 0:
                return NO_MEMORY
            outcome = self.copy_kept(
                p + HEADER_SIZE, p + size, count, base, base_timestamp,
                has_horizon and now_ms >= base_timestamp, moved, new_horizon_ms, out, &kept,
            )
            if outcome != OK:
                return outcome
            if moved or not kept.tombstones or has_horizon or last > self.latest:
                break
            moved = True  # the first time that its tombstones are seen: from now on their time runs (KIP-534)
            out.size = begin
        if kept.records == 0:
            out.size = begin
            if not keep_empty:
                return OK
            return put_empty(out, p)
        if not kept.dropped and not moved:
            return OK
        header = out.data + begin
        put32(header + 8, <uint32_t>(out.size - begin - LENGTH_BASE))
        if moved:
            put16(header + 21, attributes | HORIZON)
            put64(header + 27, <uint64_t>new_horizon_ms)
        if not attributes & LOG_APPEND_TIME:
            put64(header + 35, <uint64_t>kept.max_timestamp)
        put32(header + 57, <uint32_t>kept.records)
        put32(header + 17, crc32c(0, header + CRC_START, out.size - begin - CRC_START))
        return OK

    def filter_batches(
        self, data, Py_ssize_t position, int64_t now_ms, int64_t new_horizon_ms, retained, int64_t upper_bound
    ):
        cdef Py_buffer view, ends
        cdef Out out, begins  # what stays, and where each batch of it begins
        cdef const uint8_t* p
        cdef Py_ssize_t size = 0, last_at = -1
        cdef size_t begin
        cdef int outcome = OK
        cdef int64_t last
        out.size = out.room = begins.size = begins.room = 0
        out.data = begins.data = NULL
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        PyObject_GetBuffer(retained, &ends, PyBUF_SIMPLE)
        try:
            if not 0 <= position <= view.len:
                raise CorruptBatch("the range is outside the buffer")
            with nogil:
                while True:
                    p = <const uint8_t*>view.buf + position
                    size = whole_plain(p, view.len - position)
                    if size <= 0:
                        break
                    last = <int64_t>get64(p) + <int32_t>get32(p + 23)
                    begin = out.size
                    outcome = self.filter_one(
                        p, size, now_ms, new_horizon_ms,
                        last + 1 == upper_bound or has(<const int64_t*>ends.buf, ends.len // 8, last), &out,
                    )
                    if outcome != OK:
                        break
                    last_at = position
                    position += size
                    if out.size > begin:
                        outcome = put(&begins, &begin, sizeof(size_t))
                        if outcome != OK:
                            break
            if outcome == NO_MEMORY:
                raise MemoryError
            if size < 0 or outcome == CORRUPT:
                raise CorruptBatch(f"a damaged batch at byte {position}")
            kept = PyBytes_FromStringAndSize(<const char*>out.data, out.size)
            return kept, position, batches_in(&out, <const size_t*>begins.data, begins.size // sizeof(size_t)), last_at
        finally:
            free(out.data)
            free(begins.data)
            PyBuffer_Release(&ends)
            PyBuffer_Release(&view)

    def filter_records(
        self, payload, int64_t count, int64_t base_offset, int64_t base_timestamp, bint tombstones_go, new_base_timestamp=None
    ):
        cdef Py_buffer view
        cdef Out out
        cdef Kept kept
        cdef int outcome
        cdef bint moved = new_base_timestamp is not None
        cdef int64_t new_base = new_base_timestamp if moved else 0
        out.size, out.room = 0, 0
        out.data = NULL
        PyObject_GetBuffer(payload, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                outcome = self.copy_kept(
                    <const uint8_t*>view.buf, <const uint8_t*>view.buf + view.len, count, base_offset, base_timestamp,
                    tombstones_go, moved, new_base, &out, &kept,
                )
            if outcome == NO_MEMORY:
                raise MemoryError
            if outcome == CORRUPT:
                raise CorruptBatch("records that can't be read")
            return (
                PyBytes_FromStringAndSize(<const char*>out.data, out.size),
                kept.records, bool(kept.dropped), bool(kept.tombstones), kept.max_timestamp,
            )
        finally:
            free(out.data)
            PyBuffer_Release(&view)


cdef list batches_in(const Out* out, const size_t* begins, size_t count):
    cdef list written = []
    cdef size_t number
    for number in range(count):
        written.append(
            (begins[number], <int64_t>get64(out.data + begins[number]), <int64_t>get64(out.data + begins[number] + 35))
        )
    return written


cdef int put_empty(Out* out, const uint8_t* p) noexcept nogil:
    """The header alone: it keeps the last offset and the producer's last sequence."""
    cdef uint8_t* header
    if put(out, p, HEADER_SIZE) < 0:
        return NO_MEMORY
    header = out.data + out.size - HEADER_SIZE
    put32(header + 8, HEADER_SIZE - LENGTH_BASE)
    put16(header + 21, get16(p + 21) & ~(COMPRESSION | HORIZON))
    put64(header + 27, <uint64_t>-1)
    put32(header + 57, 0)
    put32(header + 17, crc32c(0, header + CRC_START, HEADER_SIZE - CRC_START))
    return OK


from headrace.record.errors import CorruptBatch
