# Part of `_kinesis.pyx`: stored batches as the records of an answer, and how text and numbers are written in JSON and CBOR.


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


include "_cursor.pxi"


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
