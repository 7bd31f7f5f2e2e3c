# A reader of what records are made of, for the twins that read stored batches (`_columns`, `_kinesis`). It never goes beyond its
# end: there, and at a number that is too long, it reads 0 and is `failed` from then on. The types of libc.stdint are cimported by
# who includes it.


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
