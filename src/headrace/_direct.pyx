# cython: boundscheck=False, wraparound=False
"""Synced writes that the kernel carries out by itself (Linux's asynchronous input and output): no thread waits for the device.

`DirectWriter` has one write under way at a time. `start` copies the bytes into a buffer of its own, aligned as O_DIRECT wants
it, and hands them over; when they are on the device the descriptor `ready` becomes readable, and `finish` says how it went.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

cdef extern from "linux/aio_abi.h" nogil:
    ctypedef unsigned long aio_context_t
    enum: IOCB_CMD_PWRITE
    enum: IOCB_FLAG_RESFD
    cdef struct iocb:
        unsigned short aio_lio_opcode
        unsigned int aio_fildes
        uint64_t aio_buf
        uint64_t aio_nbytes
        int64_t aio_offset
        int aio_rw_flags
        unsigned int aio_flags
        unsigned int aio_resfd
    cdef struct io_event:
        int64_t res

cdef extern from "sys/syscall.h" nogil:
    enum: SYS_io_setup
    enum: SYS_io_submit
    enum: SYS_io_getevents
    enum: SYS_io_destroy

cdef extern from "sys/uio.h" nogil:
    enum: RWF_DSYNC

cdef extern from "sys/eventfd.h" nogil:
    enum: EFD_NONBLOCK
    enum: EFD_CLOEXEC
    int eventfd(unsigned int, int)

cdef extern from "unistd.h" nogil:
    long syscall(long, ...)
    int close(int)
    ssize_t read(int, void *, size_t)

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void **, size_t, size_t)

cdef enum:
    ALIGNMENT = 4096


cdef class DirectWriter:
    cdef aio_context_t context
    cdef char *buffer
    cdef size_t room
    cdef iocb request
    cdef readonly int ready
    cdef readonly bint busy

    def __cinit__(self, size_t room):
        self.ready = -1
        self.room = room
        if posix_memalign(<void **> &self.buffer, ALIGNMENT, room):
            raise MemoryError
        if syscall(SYS_io_setup, 1, &self.context):
            raise OSError(errno, "io_setup")
        self.ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.ready < 0:
            raise OSError(errno, "eventfd")

    def __dealloc__(self):
        self._end()

    def close(self):
        """Waits for what is under way."""
        self._end()

    cdef void _end(self) noexcept:
        if self.context:
            syscall(SYS_io_destroy, self.context)
            self.context = 0
        if self.ready >= 0:
            close(self.ready)
            self.ready = -1
        free(self.buffer)
        self.buffer = NULL
        self.busy = False

    def start(self, int fd, int64_t position, pieces):
        """Begins to write the pieces, whose sizes add up to a multiple of 4096, one after the other. False when it can't be
        begun: then nothing was."""
        cdef Py_buffer view
        cdef size_t filled = 0
        cdef iocb *requests[1]
        if self.busy or self.buffer is NULL:
            return False
        for piece in pieces:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            if <size_t> view.len > self.room - filled:
                PyBuffer_Release(&view)
                return False
            memcpy(self.buffer + filled, view.buf, view.len)
            filled += view.len
            PyBuffer_Release(&view)
        if not filled or filled % ALIGNMENT or position % ALIGNMENT:
            return False
        memset(&self.request, 0, sizeof(iocb))
        self.request.aio_lio_opcode = IOCB_CMD_PWRITE
        self.request.aio_fildes = fd
        self.request.aio_buf = <uint64_t> <size_t> self.buffer
        self.request.aio_nbytes = filled
        self.request.aio_offset = position
        self.request.aio_rw_flags = RWF_DSYNC
        self.request.aio_flags = IOCB_FLAG_RESFD
        self.request.aio_resfd = self.ready
        requests[0] = &self.request
        if syscall(SYS_io_submit, self.context, 1, requests) != 1:
            return False
        self.busy = True
        return True

    def finish(self):
        """0 when all of it is on the device, the error number when it is not, None while it is under way."""
        cdef io_event event
        cdef uint64_t count
        if not self.busy:
            return None
        read(self.ready, &count, sizeof(count))
        if syscall(SYS_io_getevents, self.context, 0, 1, &event, NULL) != 1:
            return None
        self.busy = False
        if event.res < 0:
            return -event.res
        return 0 if <uint64_t> event.res == self.request.aio_nbytes else 5  # EIO: a part of it says nothing of the rest
