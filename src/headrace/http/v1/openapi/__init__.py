"""/v1/openapi.json and /v1/docs: what can be done below /v1, described for programs (OpenAPI 3.1) and for people.

    document    the whole document, from tables of operations and from what is described by hand
    described   the form of what is described by hand: resources that are not made of operations
    events      publishing, reading, streams and sockets
    routes      routes, and webhooks that come in
    page        the document as a page
    serving     the two paths

A test compares the document with the paths that are really there. Imports `v1.operations` and those who have some.
"""
