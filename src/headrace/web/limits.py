"""Every bound of the web server, and what happens at it."""

from __future__ import annotations

from headrace.dataclass import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds are counted by a look at every connection once a second, so they may be one longer."""

    connections: int = 4096
    """Open at once. One more is accepted, answered 503 and closed at once, before it has said anything."""

    head_bytes: int = 64 * KIB
    """Of one request: request line and headers, and trailers likewise. Beyond: 431 and closed; in HTTP/2 the connection ends
    with ENHANCE_YOUR_CALM or COMPRESSION_ERROR, for what was not decoded can't be skipped."""

    headers: int = 200
    """Headers of one request. Beyond: 431 and closed; in HTTP/2 the stream is answered 431."""

    head_s: float = 30.0
    """From the first byte of a head to its last, and from the connection to its first byte. Beyond: closed; 408 if it
    began."""

    idle_s: float = 120.0
    """Between an answer and the next request of the same connection. Beyond: closed; HTTP/2 says GOAWAY before."""

    crowded_idle_s: float = 5.0
    """Instead of `idle_s`, and of `head_s` for who has said nothing, while more than nine tenths of `connections` are open."""

    body_s: float = 30.0
    """Without a byte of a body that is waited for. Beyond: 408 and closed, or cut if the answer has begun; in HTTP/2 the
    stream is reset."""

    stalled_s: float = 30.0
    """Without the peer taking a byte while there is something to send. Beyond: cut, and what is unsent thrown away. In HTTP/2
    also for one stream whose window stays shut: reset."""

    unread_bytes: int = 64 * KIB
    """Of a body that the handler has not asked for, or has not received. Beyond: not read (up to one piece of 256 KiB more)."""

    unsent_bytes: int = 256 * KIB
    """Of one exchange: beyond, `full` is true and `drained` waits."""

    unsent_most_bytes: int = 32 * MIB
    """Of one exchange that writes without waiting. A write that finds more is the last: the exchange is cut."""

    unsent_total_bytes: int = 512 * MIB
    """Of all connections together, those with less than `unsent_bytes` not counted. An answer with a body of more than 64 KiB
    that would go beyond: 503 instead. A write of a streamed answer that finds more while its own peer does not read: cut. And
    while there is more, who takes nothing for `crowded_s` is cut, not after `stalled_s`."""

    crowded_s: float = 2.0

    collecting_bytes: int = 512 * MIB
    """Of bodies that `collect` holds unfinished, in all connections together. The one that goes beyond: 503 and closed."""

    discard_bytes: int = 64 * KIB
    """Of a body that is still to come when the answer ends: read and thrown away, so that the connection can go on. If more is
    to come the connection is closed instead."""

    linger_s: float = 2.0
    """How long a connection that is closed while the peer still sends is read from, so that the peer finds the answer and not
    a reset; at most `linger_bytes` then."""

    linger_bytes: int = 16 * MIB

    streams: int = 128
    """HTTP/2: open at once on one connection (SETTINGS_MAX_CONCURRENT_STREAMS). Beyond: REFUSED_STREAM, and ENHANCE_YOUR_CALM
    for who opens more than so many again in one second after it was told."""

    window_bytes: int = 256 * KIB
    """HTTP/2: what one stream may send before the handler takes it (SETTINGS_INITIAL_WINDOW_SIZE)."""

    connection_window_bytes: int = 4 * MIB
    """HTTP/2: the same for all streams of a connection: what was not taken is never more."""

    frames: int = 128
    """HTTP/2: frames of one connection that are worked on in one turn of the event loop; others have their turn in between."""

    resets: int = 200
    """HTTP/2: streams the peer resets in one second before they were answered. Beyond: ENHANCE_YOUR_CALM (rapid reset)."""

    control_frames: int = 1000
    """HTTP/2: PING, SETTINGS, PRIORITY, unknown frames, and frames of DATA with nothing in them, in one second. Beyond:
    ENHANCE_YOUR_CALM."""

    continuations: int = 32
    """HTTP/2: frames of CONTINUATION of one head. Beyond: ENHANCE_YOUR_CALM."""
