# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of `headrace.zeromq.pure`: many messages in one call, without a Python object for each frame.

It calls the libzmq that pyzmq has loaded, found again by its path (`bind`), with the handle of a pyzmq socket
(`Socket.underlying`). Nothing here waits, and the interpreter is not let go: a call takes less than a slice of the event loop.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR
from libc.string cimport memcpy

cdef extern from "dlfcn.h":
    void *dlopen(const char *path, int flags)
    void *dlsym(void *library, const char *name)
    int RTLD_NOW
    int RTLD_NOLOAD

cdef extern from *:
    """
    typedef union { unsigned char bytes[64]; void *aligned; } hr_zmq_msg;  /* zmq_msg_t of zmq.h */
    """
    ctypedef struct hr_zmq_msg:
        pass

ctypedef int (*on_message)(hr_zmq_msg *) noexcept
ctypedef int (*with_size)(hr_zmq_msg *, size_t) noexcept
ctypedef int (*fact_of)(hr_zmq_msg *, int) noexcept
ctypedef int (*across)(hr_zmq_msg *, void *, int) noexcept
ctypedef void *(*data_of)(hr_zmq_msg *) noexcept
ctypedef size_t (*size_of)(hr_zmq_msg *) noexcept
ctypedef int (*error_number)() noexcept
ctypedef void (*version_of)(int *, int *, int *) noexcept

cdef on_message msg_init = NULL
cdef on_message msg_close = NULL
cdef on_message msg_more = NULL
cdef with_size msg_init_size = NULL
cdef fact_of msg_get = NULL
cdef across msg_recv = NULL
cdef across msg_send = NULL
cdef data_of msg_data = NULL
cdef size_of msg_size = NULL
cdef error_number last_error = NULL

cdef int DONTWAIT = 1
cdef int SNDMORE = 2
cdef int SRCFD = 2


def bind(str path):
    """The version of the library at that path, which must be loaded already; None if it can't be used."""
    global msg_init, msg_close, msg_more, msg_get, msg_init_size, msg_recv, msg_send, msg_data, msg_size, last_error
    cdef void *library = dlopen(path.encode(), RTLD_NOW | RTLD_NOLOAD)
    cdef int major = 0, minor = 0, patch = 0
    if library == NULL:
        return None
    cdef void *version = dlsym(library, b"zmq_version")
    msg_init = <on_message> dlsym(library, b"zmq_msg_init")
    msg_close = <on_message> dlsym(library, b"zmq_msg_close")
    msg_more = <on_message> dlsym(library, b"zmq_msg_more")
    msg_get = <fact_of> dlsym(library, b"zmq_msg_get")
    msg_init_size = <with_size> dlsym(library, b"zmq_msg_init_size")
    msg_recv = <across> dlsym(library, b"zmq_msg_recv")
    msg_send = <across> dlsym(library, b"zmq_msg_send")
    msg_data = <data_of> dlsym(library, b"zmq_msg_data")
    msg_size = <size_of> dlsym(library, b"zmq_msg_size")
    last_error = <error_number> dlsym(library, b"zmq_errno")
    if (
        version == NULL or msg_init == NULL or msg_close == NULL or msg_more == NULL or msg_get == NULL
        or msg_init_size == NULL or msg_recv == NULL or msg_send == NULL or msg_data == NULL or msg_size == NULL or last_error == NULL
    ):
        return None
    (<version_of> version)(&major, &minor, &patch)
    return major, minor, patch


cdef dict _counted(dict taken, int descriptor, size_t size):
    if size:
        taken[descriptor] = taken.get(descriptor, 0) + size
    return taken


def receive(size_t handle, int most, size_t most_bytes, int most_frames):
    """See `pure.receive`."""
    cdef void *socket = <void *> handle
    cdef hr_zmq_msg message
    cdef list messages = []
    cdef list frames = None
    cdef dict taken = {}
    cdef size_t size = 0, length, of_one = 0
    cdef int count = 0, more = 0, descriptor, before = -1
    msg_init(&message)
    try:
        while more or (count < most and size < most_bytes):
            if msg_recv(&message, socket, DONTWAIT) < 0:
                if last_error() == EINTR:
                    continue
                if last_error() == EAGAIN:
                    return messages, True, _counted(taken, before, of_one)
                raise OSError(last_error(), "zmq_msg_recv")
            length = msg_size(&message)
            size += length
            more = msg_more(&message)
            descriptor = msg_get(&message, SRCFD)
            if descriptor != before:
                _counted(taken, before, of_one)
                before, of_one = descriptor, 0
            of_one += length + (2 if length < 256 else 9)
            if frames is None:
                frame = PyBytes_FromStringAndSize(<char *> msg_data(&message), length)
                if not more:
                    messages.append(frame)
                    count += 1
                else:
                    frames = [frame]
                continue
            if len(frames) <= most_frames:
                frames.append(PyBytes_FromStringAndSize(<char *> msg_data(&message), length))
            if not more:
                messages.append(frames)
                frames = None
                count += 1
        return messages, False, _counted(taken, before, of_one)
    finally:
        msg_close(&message)


def send(size_t handle, list messages, int start):
    """See `pure.send`."""
    cdef void *socket = <void *> handle
    cdef hr_zmq_msg message
    cdef Py_ssize_t number = start, total = len(messages), place, last
    cdef tuple frames
    cdef bytes frame
    while number < total:
        frames = messages[number]
        last = len(frames) - 1
        place = 0
        while place <= last:
            frame = frames[place]
            if msg_init_size(&message, PyBytes_GET_SIZE(frame)) < 0:
                raise MemoryError
            memcpy(msg_data(&message), PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame))
            if msg_send(&message, socket, DONTWAIT | SNDMORE if place < last else DONTWAIT) < 0:
                msg_close(&message)
                if last_error() == EINTR:
                    continue
                if last_error() == EAGAIN:
                    return number
                raise OSError(last_error(), "zmq_msg_send")
            place += 1
        number += 1
    return number
