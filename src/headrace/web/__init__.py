"""A web server for the event loop of this process: HTTP/1.1 and HTTP/2 with prior knowledge on one port, no threads.

    exchange      one request and the way back, for both protocols: what handlers are written against
    limits        every bound, and what happens at it
    server        accepts, counts, looks at every connection once a second, stops
    first_connection   a socket that is bound at once, and served once somebody has connected
    connection    what connections of both protocols have in common: who it is, whether it reads
    first_bytes   a connection that has not said yet which protocol it speaks
    http1         requests of HTTP/1.1 out of a stream of bytes; `http1_head` checks their heads, `http1_exchange` answers
                  them, `http1_ending` closes connections
    http2         the same for HTTP/2: heads and bodies; `http2_head` checks them, `http2_control` takes the other frames,
                  `http2_floods` watches for too many, `http2_exchange` is one stream, `http2_sending` what goes out
    http2_frames, hpack_decoding   frames and headers as bytes
    answer_head   status lines and headers of HTTP/1.1 as bytes
    refusals      what is logged of peers that misbehave
    asgi, websocket   applications of ASGI on top of it

Knows nothing of the broker. HTTP/2 is imported for the first connection that speaks it. Imported by the front ends that speak
HTTP.
"""
