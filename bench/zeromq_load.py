"""Loads on ZeroMQ, with nothing but pyzmq: a program that pushes, and one that pulls.

push   connects, and sends so many messages as fast as they are taken
pull   binds or connects, and receives so many in a bare loop; prints one JSON object with the rate from the first to the last
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import zmq


def push(address: str, count: int, size: int) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.PUSH)
    socket.connect(address)
    message, send = b"x" * size, socket.send
    for _ in range(count):
        send(message)
    socket.close()
    context.term()  # returns when all is sent


def pull(address: str, count: int, *, bind: bool) -> None:
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    (socket.bind if bind else socket.connect)(address)
    print("listening", flush=True)
    recv = socket.recv
    recv()
    began = time.perf_counter()
    for _ in range(count - 1):
        recv()
    took = time.perf_counter() - began
    print(json.dumps({"rate": (count - 1) / took}))
    context.destroy(linger=0)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=["push", "pull"])
    parser.add_argument("--address", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--bind", action="store_true")
    given = parser.parse_args(arguments)
    if given.verb == "push":
        push(given.address, given.count, given.size)
    else:
        pull(given.address, given.count, bind=given.bind)


if __name__ == "__main__":
    main(sys.argv[1:])
