"""What can be said about a feed, and what is refused."""

from __future__ import annotations

import pytest

import headrace
from headrace.client.multicast.options import Options


def test_options_come_from_the_url_and_keywords_go_before_it() -> None:
    with headrace.connect("udp://239.255.0.1:5007?feed=prices&ttl=4&loopback=false&mtu=9000", ttl=2, linger_us=200) as channel:
        options = channel.options
    assert (options.feed, options.ttl, options.loopback, options.mtu, options.linger_us) == ("prices", 2, False, 9000, 200)
    assert options.interface is None


def test_defaults_stay_on_this_machine() -> None:
    options = Options()
    assert (options.interface, options.ttl, options.mtu, options.secret) == (None, 1, 1400, None)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("udp://239.255.0.1", "is not like"),
        ("udp://:5007", "is not like"),
        ("udp://239.255.0.1:99999", "is not like"),
        ("udp://239.255.0.1:5007/prices", "is not like"),
        ("udp://user@239.255.0.1:5007", "is not like"),
        ("udp://10.0.0.1:5007", "'10.0.0.1' is no multicast address"),
        ("udp://localhost:5007", "'localhost' is no multicast address"),
        ("udp://[::1]:5007", "'::1' is no multicast address"),
        ("udp://239.255.0.1:0", "0 is no port"),
        ("udp://239.255.0.1:5007?fed=prices", "a feed has no option 'fed'; there are: feed, interface"),
        ("udp://239.255.0.1:5007?ttl=300", "ttl must be a whole number from 0 to 255"),
        ("udp://239.255.0.1:5007?ttl=x", "ttl must be a whole number from 0 to 255"),
        ("udp://239.255.0.1:5007?mtu=100", "mtu must be a whole number from 256 to 65507"),
        ("udp://239.255.0.1:5007?loopback=perhaps", "loopback must be true or false"),
        ("udp://239.255.0.1:5007?secret=short", "secret must have at least 8 characters"),
        ("udp://239.255.0.1:5007?sender=nobody", "sender must be an address"),
        ("udp://239.255.0.1:5007?start=middle", "start must be latest, earliest or an offset"),
        ("udp://239.255.0.1:5007?start=-1", "start must be latest, earliest or an offset"),
        ("udp://239.255.0.1:5007?reorder_ms=nan", "reorder_ms must be a number from 0 to 10000"),
        (f"udp://239.255.0.1:5007?feed={'x' * 250}", "the name of a feed has at most 249 bytes"),
    ],
)
def test_what_makes_no_sense_is_refused_with_words(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("[", r"\[").replace("?", r"\?")):
        headrace.connect(url)


def test_an_interface_that_there_is_not_is_an_error_of_the_system() -> None:
    with headrace.connect("udp://239.255.0.1:5007?interface=none77") as channel:
        with pytest.raises(OSError, match="there is no interface 'none77'"):
            channel.publisher()
        with pytest.raises(OSError, match="there is no interface 'none77'"):
            channel.subscriber()


def test_a_beginning_in_the_log_needs_a_log() -> None:
    with (
        headrace.connect("udp://239.255.0.1:5007?start=earliest") as channel,
        pytest.raises(ValueError, match="start needs the log behind the feed"),
    ):
        channel.subscriber()
