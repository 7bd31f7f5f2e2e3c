# Part of `_kinesis.pyx`: the records of a put, the batches they become, and the answers to it.


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
