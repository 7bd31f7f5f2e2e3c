"""Feeds over UDP multicast: topics as streams of datagrams, and streams of datagrams as topics.

    feed/      the format and what both sides of it need; clients use it too, so it knows nothing of the broker
    routes     makes the ends of routes whose type is `udp`
    sessions   what sequences belong together
    sending    the end that sends what a topic gets
    taking     the end that brings what comes in into a topic

Imports the ports of routes, `log.port` and `record`. The composition root imports `routes`, when there is such a route; clients
import `feed` and nothing else.
"""
