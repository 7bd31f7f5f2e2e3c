"""Headers out of HPACK (RFC 7541): what a peer of HTTP/2 sends as the head of a request.

The `hpack` package decodes too, and its tables are used here, but half of what a signed request costs would be Huffman's code
undone nibble by nibble. Here a byte at a time is undone by a table of (state, byte) → (state, what it means), whose states are
the inner nodes of the code's tree. The table is filled as bytes are met: at most 65,536 entries, for all connections.

Bounds: the dynamic table has at most `TABLE_BYTES` (we never announce another size), the headers of a block together at most
`most_bytes` as RFC 9113, 6.5.2 counts them, however small the block is; numbers have at most `_MOST_DIGITS` bytes.
"""

from __future__ import annotations

from collections import deque

from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.table import HeaderTable

from headrace.web.exchange import Header

TABLE_BYTES = 4096
ENTRY_BYTES = 32  # RFC 7541, 4.1

_STATIC: tuple[Header, ...] = ((b"", b""), *((name, value) for name, value in HeaderTable.STATIC_TABLE))
_STATIC_COUNT = len(_STATIC)  # 62, with the one of index 0 that does not exist
_MOST_DIGITS = 4
_EOS = 256


class BadBlock(Exception):
    """It can't be decoded, and neither can what follows."""


class TooLarge(Exception):
    """More headers than the bound allows."""


class Decoder:
    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: deque[Header] = deque()  # the youngest first
        self._used = 0
        self._room = TABLE_BYTES

    def decode(self, block: bytes) -> list[Header]:
        try:
            return self._decode(block)
        except IndexError:
            raise BadBlock("it ends too early, or names what is not in the table") from None

    def _decode(self, block: bytes) -> list[Header]:
        fields: list[Header] = []
        entries = self._entries
        at, end, left = 0, len(block), self._most_bytes
        while at < end:
            first = block[at]
            at += 1
            if first & 0x80:
                index = first & 0x7F
                if index == 0x7F:
                    index, at = _number(block, at, 0x7F)
                field = _STATIC[index] if index < _STATIC_COUNT else entries[index - _STATIC_COUNT]
                if not index:
                    raise BadBlock("there is no entry 0")
            elif first & 0xE0 == 0x20:
                if fields:
                    raise BadBlock("the size of the table changes behind a header")
                size = first & 0x1F
                if size == 0x1F:
                    size, at = _number(block, at, 0x1F)
                if size > TABLE_BYTES:
                    raise BadBlock("the table would be larger than allowed")
                self._room = size
                self._evict()
                continue
            else:
                kept = first & 0x40
                most = 0x3F if kept else 0x0F
                index = first & most
                if index == most:
                    index, at = _number(block, at, most)
                if index:
                    name = (_STATIC[index] if index < _STATIC_COUNT else entries[index - _STATIC_COUNT])[0]
                else:
                    name, at = _string(block, at, end)
                value, at = _string(block, at, end)
                field = (name, value)
                if kept:
                    entries.appendleft(field)
                    self._used += len(name) + len(value) + ENTRY_BYTES
                    if self._used > self._room:
                        self._evict()
            left -= len(field[0]) + len(field[1]) + ENTRY_BYTES
            if left < 0:
                raise TooLarge
            fields.append(field)
        return fields

    def _evict(self) -> None:
        while self._used > self._room:
            name, value = self._entries.pop()
            self._used -= len(name) + len(value) + ENTRY_BYTES


def _number(block: bytes, at: int, most: int) -> tuple[int, int]:
    """RFC 7541, 5.1, behind a prefix that is full."""
    value, shift = most, 0
    for _ in range(_MOST_DIGITS):
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise BadBlock("a number is too large")


def _string(block: bytes, at: int, end: int) -> tuple[bytes, int]:
    first = block[at]
    at += 1
    size = first & 0x7F
    if size == 0x7F:
        size, at = _number(block, at, 0x7F)
    behind = at + size
    if behind > end:
        raise BadBlock("a string is longer than its block")
    text = block[at:behind]
    return (_undo_huffman(text) if first & 0x80 else text), behind


# --- Huffman's code (RFC 7541, 5.2 and appendix B)


def _tree() -> list[list[int]]:
    """Inner nodes, each with what follows a 0 and a 1: another node, or -1 - symbol. The root is 0."""
    nodes = [[0, 0]]
    for symbol, (code, length) in enumerate(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)):
        node = 0
        for bit in range(length - 1, 0, -1):
            side = code >> bit & 1
            if not nodes[node][side]:
                nodes.append([0, 0])
                nodes[node][side] = len(nodes) - 1
            node = nodes[node][side]
        nodes[node][code & 1] = -1 - symbol
    return nodes


def _padding() -> frozenset[int]:
    """The states in which a string may end: behind at most 7 bits of the code of EOS, which are all 1."""
    states, node = [0], 0
    for _ in range(7):
        node = _NODES[node][1]
        states.append(node)
    return frozenset(states)


_NODES = _tree()
_ENDS = _padding()
_steps: list[list[tuple[int, bytes] | None]] = [[None] * 256 for _ in _NODES]


def _undo_huffman(text: bytes) -> bytes:
    state = 0
    out: list[bytes] = []
    steps = _steps
    for byte in text:
        step = steps[state][byte]
        if step is None:
            step = _learn(state, byte)
        state, said = step
        out.append(said)
    if state not in _ENDS:
        raise BadBlock("a string in Huffman's code ends in the middle")
    return b"".join(out)


def _learn(state: int, byte: int) -> tuple[int, bytes]:
    node = state
    said = bytearray()
    for bit in range(7, -1, -1):
        node = _NODES[node][byte >> bit & 1]
        if node < 0:
            symbol = -1 - node
            if symbol == _EOS:
                raise BadBlock("EOS in a string")
            said.append(symbol)
            node = 0
    step = _steps[state][byte] = (node, bytes(said))
    return step
