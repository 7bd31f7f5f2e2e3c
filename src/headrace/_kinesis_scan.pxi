# Part of `_kinesis.pyx`: requests of the usual form, read without making objects of their members.


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
