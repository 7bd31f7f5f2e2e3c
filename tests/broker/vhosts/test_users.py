from __future__ import annotations

import pytest
from tests.broker.vhosts.conftest import Site

from headrace.broker.queues.errors import AmqpRefusal
from headrace.broker.vhosts.users import (
    Permissions,
    TopicPermissions,
    User,
    check_exchange_access,
    check_queue_access,
    check_topic_access,
    check_vhost_access,
    hashed,
)


def test_guest_is_for_this_machine_only(site: Site) -> None:
    users = site.hosts.users
    assert users.authenticate("guest", "guest") is not None
    assert users.authenticate("guest", "guest", loopback=False) is None
    for name, password in (("guest", "wrong"), ("guest", ""), ("nobody", "guest"), ("", "")):
        assert users.authenticate(name, password) is None


def test_hashes_of_rabbitmq_are_understood() -> None:
    # made by RabbitMQ 3.10.8 for the password "guest"
    user = User("guest", "I3cndANUyJqgSETMjkGhgf4NBK3CKwSr6Pb0C/1hZZe68Jh7")
    assert user.has_password("guest")
    assert not user.has_password("guest ")


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "md5"])
def test_every_hash_of_rabbitmq(algorithm: str) -> None:
    name = f"rabbit_password_hashing_{algorithm}"
    user = User("u", hashed("pw", b"salt", name), name)
    assert user.has_password("pw")
    assert not user.has_password("other")


@pytest.mark.parametrize("stored", ["", "!!", "AAAA", "AA=="])
def test_without_a_hash_no_password_is_right(stored: str) -> None:
    assert not User("u", stored).has_password("")
    assert not User("u", stored).has_password("pw")


def refused(work: object) -> tuple[int, str]:
    with pytest.raises(AmqpRefusal) as caught:
        work()  # type: ignore[operator]
    return caught.value.code, caught.value.text


def test_permissions() -> None:
    user = User("u", permissions={"v": Permissions("^mine", "", ".*")})
    check_vhost_access(user, "v")
    assert refused(lambda: check_vhost_access(user, "/")) == (530, "access to vhost '/' refused for user 'u'")
    check_queue_access(user, "configure", "mine-1", "v")
    check_queue_access(user, "read", "any", "v")
    text = "configure access to queue 'q' in vhost 'v' refused for user 'u'"
    assert refused(lambda: check_queue_access(user, "configure", "q", "v")) == (403, text)
    text = "write access to exchange 'x' in vhost 'v' refused for user 'u'"
    assert refused(lambda: check_exchange_access(user, "write", "x", "v")) == (403, text)
    text = "write access to exchange 'amq.default' in vhost 'v' refused for user 'u'"
    assert refused(lambda: check_exchange_access(user, "write", "", "v")) == (403, text)
    assert refused(lambda: check_queue_access(user, "read", "q", "/"))[0] == 403


def test_topic_permissions_hold_for_their_exchange() -> None:
    user = User("u", topic_permissions={"v": (TopicPermissions("amq.topic", "^a", ""),)})
    check_topic_access(user, "write", "amq.topic", "a.b", "v")
    check_topic_access(user, "write", "other", "b", "v")
    text = "write access to topic 'b' in exchange topic 'amq.topic' in vhost 'v' refused for user 'u'"
    assert refused(lambda: check_topic_access(user, "write", "amq.topic", "b", "v")) == (403, text)
    assert refused(lambda: check_topic_access(user, "read", "amq.topic", "a", "v"))[0] == 403


def test_patterns_of_topics_may_name_the_user() -> None:
    user = User("a.b", topic_permissions={"v": (TopicPermissions("amq.topic", r"^{username}\.{vhost}$"),)})
    check_topic_access(user, "write", "amq.topic", "a.b.v", "v")
    assert refused(lambda: check_topic_access(user, "write", "amq.topic", "axb.v", "v"))[0] == 403
