# cython: boundscheck=False, wraparound=False
"""Synced writes that nobody in Python waits for: the kernel carries them out by itself (Linux's asynchronous input and
output), or a thread of C does, which needs no turn of the interpreter to begin nor to end.

`DirectWriter` has one write under way at a time. `start` copies the bytes into a buffer of its own, aligned as O_DIRECT wants
it, and hands them over; when they are on the device the descriptor `ready` becomes readable, and `finish` says how it went.

Why there are two ways: the kernel's saves two wake-ups, but the kernel syncs what it has written on a thread bound to the core
that takes the device's interrupts, and while something else computes there, that thread may wait for its next tick, up to
4 ms. A thread of ours moves to another core, or gets its turn at once.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, EIO, errno
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

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
    cdef struct iovec:
        void *iov_base
        size_t iov_len
    ssize_t pwritev2(int, const iovec *, int, int64_t, int)

cdef extern from "sys/eventfd.h" nogil:
    enum: EFD_NONBLOCK
    enum: EFD_CLOEXEC
    int eventfd(unsigned int, int)

cdef extern from "unistd.h" nogil:
    long syscall(long, ...)
    int close(int)
    ssize_t read(int, void *, size_t)
    ssize_t write(int, const void *, size_t)
    int fdatasync(int)

cdef extern from "fcntl.h" nogil:
    enum: SYNC_FILE_RANGE_WRITE
    int sync_file_range(int, int64_t, int64_t, unsigned int)

cdef extern from "stdlib.h" nogil:
    int posix_memalign(void **, size_t, size_t)

cdef extern from "semaphore.h" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t *, int, unsigned int)
    int sem_post(sem_t *)
    int sem_wait(sem_t *)
    int sem_destroy(sem_t *)

cdef extern from "signal.h" nogil:
    ctypedef struct sigset_t:
        pass
    enum: SIG_SETMASK
    int sigfillset(sigset_t *)
    int pthread_sigmask(int, const sigset_t *, sigset_t *)

cdef extern from "pthread.h" nogil:
    ctypedef unsigned long pthread_t
    ctypedef struct pthread_attr_t:
        pass
    int pthread_attr_init(pthread_attr_t *)
    int pthread_attr_setstacksize(pthread_attr_t *, size_t)
    int pthread_attr_destroy(pthread_attr_t *)
    int pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *) noexcept nogil, void *)
    int pthread_join(pthread_t, void **)

cdef extern from *:
    """
    #include <stdint.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    #ifndef SYS_cachestat
    #define SYS_cachestat 451  /* the same for every processor */
    #endif
    /* Whether all pages of a part of a file are in memory, or -1 and errno. */
    static int all_in_memory(int fd, uint64_t position, uint64_t size) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        struct { uint64_t offset, length; } range = {position, size};
        struct { uint64_t cached, dirty, writeback, evicted, recently_evicted; } found = {0, 0, 0, 0, 0};
        if (syscall(SYS_cachestat, fd, &range, &found, 0))
            return -1;
        return found.cached >= (position + size - 1) / page - position / page + 1;
    }
    """
    int all_in_memory(int fd, uint64_t position, uint64_t size) nogil

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #ifdef __SSE2__
    #include <emmintrin.h>
    #endif
    /* The device, or a virtual machine's host, has read what stood there before, and a processor takes its time to get such
       memory back. Much of it is written without asking for it first. */
    enum { MUCH_BYTES = 16384 };
    static void copy_past_cache(char *to, const char *from, size_t size) {
    #ifdef __SSE2__
        if (size >= MUCH_BYTES) {
            size_t first = -(uintptr_t)to & 15;
            memcpy(to, from, first);
            to += first, from += first, size -= first;
            for (; size >= 64; to += 64, from += 64, size -= 64) {
                __m128i a = _mm_loadu_si128((const __m128i *)from), b = _mm_loadu_si128((const __m128i *)(from + 16));
                __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)), d = _mm_loadu_si128((const __m128i *)(from + 48));
                _mm_stream_si128((__m128i *)to, a);
                _mm_stream_si128((__m128i *)(to + 16), b);
                _mm_stream_si128((__m128i *)(to + 32), c);
                _mm_stream_si128((__m128i *)(to + 48), d);
            }
            _mm_sfence();
        }
    #endif
        memcpy(to, from, size);
    }
    """
    void copy_past_cache(char *to, const char *source, size_t size) nogil

cdef enum:
    ALIGNMENT = 4096
    STACK_BYTES = 128 * 1024

cdef struct Work:
    sem_t wanted
    int ready  # an eventfd
    bint wants_write  # or it wants the thread to end
    int fd
    int64_t position
    char *buffer
    size_t size
    int error


cdef void *write_forever(void *argument) noexcept nogil:
    cdef Work *work = <Work *> argument
    while True:
        while sem_wait(&work.wanted):
            pass
        if not work.wants_write:
            return NULL
        work.error = write_one(work)
        work.wants_write = False
        tell(work.ready)


cdef int write_one(Work *work) noexcept nogil:
    cdef iovec piece
    cdef ssize_t written
    piece.iov_base = work.buffer
    piece.iov_len = work.size
    while True:
        written = pwritev2(work.fd, &piece, 1, work.position, RWF_DSYNC)
        if written >= 0:
            return 0 if <size_t> written == work.size else EIO  # a part of it says nothing of the rest
        if errno != EINTR:
            return errno


cdef void tell(int ready) noexcept nogil:
    cdef uint64_t one = 1
    while write(ready, &one, sizeof(one)) < 0 and errno == EINTR:
        pass


def sync_each(fds):
    """Syncs the data of each of these files: the error number of each, or 0. All of them are handed to the device before the first
    is waited for, so that one commit of the file system's own journal serves many; and the interpreter is not needed meanwhile."""
    cdef Py_ssize_t count = len(fds), number
    cdef int *codes = <int *> malloc(max(count, 1) * sizeof(int))  # first the descriptors
    if codes is NULL:
        raise MemoryError
    try:
        for number in range(count):
            codes[number] = fds[number]
        with nogil:
            if count > 1:
                for number in range(count):
                    sync_file_range(codes[number], 0, 0, SYNC_FILE_RANGE_WRITE)  # what goes wrong, fdatasync will tell
            for number in range(count):
                codes[number] = sync_one(codes[number])
        return [codes[number] for number in range(count)]
    finally:
        free(codes)


cdef int sync_one(int fd) noexcept nogil:
    while fdatasync(fd):
        if errno != EINTR:
            return errno
    return 0


def in_memory(int fd, int64_t position, int64_t size):
    """Whether all of this part of a file is in the page cache. Raises OSError where the kernel can't tell (before Linux 6.5)."""
    cdef int found = all_in_memory(fd, position, size)
    if found < 0:
        raise OSError(errno, "cachestat")
    return found == 1


cdef class DirectWriter:
    cdef Work work
    cdef pthread_t thread
    cdef bint has_thread
    cdef aio_context_t context
    cdef iocb request
    cdef size_t room
    cdef bint by_thread  # what is under way
    cdef readonly bint busy

    def __cinit__(self, size_t room):
        self.work.ready = -1
        self.room = room
        if posix_memalign(<void **> &self.work.buffer, ALIGNMENT, room):
            raise MemoryError
        if syscall(SYS_io_setup, 1, &self.context):
            raise OSError(errno, "io_setup")
        self.work.ready = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)
        if self.work.ready < 0:
            raise OSError(errno, "eventfd")

    @property
    def ready(self):
        return self.work.ready

    def __dealloc__(self):
        self._end()

    def close(self):
        """Waits for what is under way."""
        self._end()

    cdef void _end(self) noexcept:
        if self.context:
            with nogil:
                syscall(SYS_io_destroy, self.context)
            self.context = 0
        if self.has_thread:
            self.has_thread = False
            with nogil:
                sem_post(&self.work.wanted)  # the thread sees it after what it is at
                pthread_join(self.thread, NULL)
            sem_destroy(&self.work.wanted)
        if self.work.ready >= 0:
            close(self.work.ready)
            self.work.ready = -1
        free(self.work.buffer)
        self.work.buffer = NULL
        self.busy = False

    def start(self, int fd, int64_t position, pieces, bint by_thread):
        """Begins to write the pieces, whose sizes add up to a multiple of 4096, one after the other. False when it can't be
        begun: then nothing was."""
        cdef Py_buffer view
        cdef size_t filled = 0
        if self.busy or self.work.buffer is NULL:
            return False
        for piece in pieces:
            PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
            if <size_t> view.len > self.room - filled:
                PyBuffer_Release(&view)
                return False
            copy_past_cache(self.work.buffer + filled, <const char *> view.buf, view.len)
            filled += view.len
            PyBuffer_Release(&view)
        if not filled or filled % ALIGNMENT or position % ALIGNMENT:
            return False
        self.work.fd = fd
        self.work.position = position
        self.work.size = filled
        self.busy = self._wake_thread() if by_thread else self._submit()
        self.by_thread = by_thread
        return self.busy

    cdef bint _submit(self) noexcept:
        cdef iocb *requests[1]
        memset(&self.request, 0, sizeof(iocb))
        self.request.aio_lio_opcode = IOCB_CMD_PWRITE
        self.request.aio_fildes = self.work.fd
        self.request.aio_buf = <uint64_t> <size_t> self.work.buffer
        self.request.aio_nbytes = self.work.size
        self.request.aio_offset = self.work.position
        self.request.aio_rw_flags = RWF_DSYNC
        self.request.aio_flags = IOCB_FLAG_RESFD
        self.request.aio_resfd = self.work.ready
        requests[0] = &self.request
        return syscall(SYS_io_submit, self.context, 1, requests) == 1

    cdef bint _wake_thread(self) noexcept:
        if not self.has_thread and not self._begin_thread():
            return False
        self.work.wants_write = True
        sem_post(&self.work.wanted)
        return True

    cdef bint _begin_thread(self) noexcept:
        cdef pthread_attr_t attributes
        cdef sigset_t every, before
        sem_init(&self.work.wanted, 0, 0)
        pthread_attr_init(&attributes)
        pthread_attr_setstacksize(&attributes, STACK_BYTES)
        sigfillset(&every)
        pthread_sigmask(SIG_SETMASK, &every, &before)  # signals are for the main thread
        self.has_thread = pthread_create(&self.thread, &attributes, write_forever, &self.work) == 0
        pthread_sigmask(SIG_SETMASK, &before, NULL)
        pthread_attr_destroy(&attributes)
        return self.has_thread

    def finish(self):
        """0 when all of it is on the device, the error number when it is not, None while it is under way."""
        cdef io_event event
        cdef uint64_t count
        if not self.busy or read(self.work.ready, &count, sizeof(count)) != sizeof(count):
            return None
        if self.by_thread:
            self.busy = False
            return self.work.error
        if syscall(SYS_io_getevents, self.context, 0, 1, &event, NULL) != 1:
            return None
        self.busy = False
        if event.res < 0:
            return -event.res
        return 0 if <uint64_t> event.res == self.work.size else EIO
