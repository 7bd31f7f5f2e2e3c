"""The bank's fraud check: a member of the group `demo.fraud-check`, which takes its time, so that there is some lag to see.

It asks for little at a time and rests in between, and so falls behind bursts and catches up with the usual rate. Who writes is
`headrace.spark.runner.feeding`.
"""

from __future__ import annotations

import time

from headrace.cli.demo_feeds.background import Background
from headrace.client.kafka import Cluster
from headrace.client.kafka.errors import UnknownName
from headrace.client.kafka.groups import committed_offsets
from headrace.client.kafka.member import Member
from headrace.client.kafka.offsets import start_offsets
from headrace.client.kafka.reader import Reader

GROUP, TOPIC = "demo.fraud-check", "bank.transactions"
_PIECE_BYTES = 16_384  # that is asked for of each partition
_REST_S = 0.5
_COMMIT_S = 2.0


class FraudCheck(Background):
    name = "the fraud check"
    protocol = "kafka"

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address

    def _work(self) -> None:
        cluster = Cluster(self._address)
        try:
            try:
                cluster.topics([TOPIC])
            except UnknownName:
                return  # nobody has written yet; it is looked for again
            member, reader = Member(cluster, GROUP, [TOPIC]), Reader(cluster, {})
            reader.partition_bytes = _PIECE_BYTES
            try:
                self._check(cluster, member, reader)
            finally:
                member.leave()
                reader.close()
        finally:
            cluster.close()

    def _check(self, cluster: Cluster, member: Member, reader: Reader) -> None:
        ours, next_commit = False, time.monotonic() + _COMMIT_S
        while not self.ended.wait(_REST_S):
            if not ours:
                assigned = member.join()
                stopped = committed_offsets(cluster, GROUP, assigned)
                begin = start_offsets(cluster, [one for one in assigned if one not in stopped])
                reader.positions = {**begin, **{one: found.offset for one, found in stopped.items()}}
            self.count("checked", len(reader.poll(0.1)))
            if time.monotonic() >= next_commit:
                member.commit(reader.positions)
                next_commit = time.monotonic() + _COMMIT_S
            ours = member.poll_group()
        member.commit(reader.positions)
