"""`headrace group` and groups of the consumer protocol (KIP-848)."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer


@pytest.fixture
def member(headrace: Any, server: str, wide: str, group: str) -> Iterator[Consumer]:
    """A member that has read all of a topic with four partitions."""
    headrace("produce", wide, *map(str, range(8)))
    consumer = Consumer(
        {
            "bootstrap.servers": server,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "client.id": "modern",
        }
    )
    consumer.subscribe([wide])
    read = 0
    for _ in range(600):
        message = consumer.poll(0.05)
        read += message is not None and message.error() is None
        if read == 8:
            break
    assert read == 8
    consumer.commit(asynchronous=False)
    yield consumer
    consumer.close()


def test_groups_of_the_consumer_protocol_are_shown_and_moved(headrace: Any, member: Consumer, wide: str, group: str) -> None:
    listed = {one["name"]: one for one in headrace("group", "list", "--json").json["groups"]}
    assert listed[group] == {"name": group, "state": "Stable", "type": "consumer", "protocol_type": "consumer"}
    (described,) = headrace("group", "describe", group, "--json").json["groups"]
    assert (described["state"], described["type"], described["assignor"]) == ("Stable", "consumer", "uniform")
    assert described["lag"] == 0
    (shown,) = described["members"]
    assert (shown["client_id"], shown["assignment"]) == ("modern", {wide: [0, 1, 2, 3]})
    assert "modern" in headrace("group", "describe", group).text

    refused = headrace("group", "reset", group, "--topic", wide, "--to-earliest", "--execute", code=1)
    assert "1 active member" in refused.err
    assert "1 active member" in headrace("group", "delete", group, code=1).err

    member.close()
    headrace("group", "reset", group, "--topic", wide, "--to-earliest", "--execute")
    (lag,) = headrace("group", "lag", group, "--json").json["groups"]
    assert lag["lag"] == 8
    headrace("group", "delete", group)
    assert group not in headrace("group", "list").text
