"""The two ends of a route as people define them: values that are read from JSON, checked, stored and shown.

    parsing     reading members of a JSON object, with words for what is wrong
    topic       a topic, as source or destination
    exchange    an exchange of AMQP, as destination
    webhook     a URL that events are sent to
    receiving   a receive URL that they come in by
    zeromq      a ZeroMQ socket, either way
    multicast   a feed of UDP datagrams, either way

What works at an end (sockets, HTTP) is elsewhere and never imported here: see `broker.routes.ports`.
"""
