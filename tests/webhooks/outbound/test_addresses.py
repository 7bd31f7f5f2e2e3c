"""What an address is: public, private, or never to be connected to."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outbound.addresses import Kind, kind_of

NEVER = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.0.23",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fe80::1",
    "fe80::a9fe:a9fe",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
    "2002:a9fe:a9fe::1",
    "::ffff:0:169.254.169.254",
    "64:ff9b:1::169.254.169.254",
    "64:ff9b:1:a9fe:a9:fe00::",
    "2606:4700::5efe:169.254.169.254",
    "2001:0:a9fe:a9fe::",
    "2001:0:102:304:0:0:5601:5601",
    "::ffff:168.63.129.16",
    "64:ff9b::168.63.129.16",
]

PRIVATE = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.7",
    "224.0.0.1",
    "239.1.2.3",
    "240.0.0.1",
    "255.255.255.255",
    "192.31.196.1",
    "192.52.193.1",
    "192.175.48.1",
    "::",
    "::1",
    "fc00::1",
    "fdff::1",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "100::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0.0.0.0",
    "::127.0.0.1",
    "::8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:808:808::",
    "2001::1",
    "2001:0:808:808::1",
    "2606:4700:0:0:0:5efe:7f00:1",
    "::ffff:0:8.8.8.8",
    "2620:4f:8000::1",
]

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "169.253.1.1",
    "169.255.0.1",
    "2606:4700::1111",
    "2a00:1450:4001::5",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2001:4860::8888",
]


@pytest.mark.parametrize(
    ("text", "kind"),
    [(text, kind) for texts, kind in ((NEVER, Kind.NEVER), (PRIVATE, Kind.PRIVATE), (PUBLIC, Kind.PUBLIC)) for text in texts],
)
def test_the_kind_of_an_address(text, kind):
    assert kind_of(ipaddress.ip_address(text)) is kind


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_no_more_public_inside_an_ipv6_one(inside):
    number = int(inside)
    kind = kind_of(inside)
    assert kind_of(ipaddress.IPv6Address(0xFFFF << 32 | number)) is kind
    assert kind_of(ipaddress.IPv6Address(0x64FF9B << 96 | number)) is kind
    for other in (number, 0x2002 << 112 | number << 80, 0x20010000 << 96 | (number ^ 0xFFFFFFFF)):
        assert kind_of(ipaddress.IPv6Address(other)) is (Kind.NEVER if kind is Kind.NEVER else Kind.PRIVATE)


@given(st.ip_addresses())
def test_nothing_that_ipaddress_calls_other_than_global_is_public(address):
    if kind_of(address) is Kind.PUBLIC:
        unwrapped = getattr(address, "ipv4_mapped", None) or address
        assert unwrapped.is_global
        assert not any((unwrapped.is_private, unwrapped.is_loopback, unwrapped.is_link_local, unwrapped.is_multicast))
        assert not any((unwrapped.is_unspecified, unwrapped.is_reserved and unwrapped.version == 4))
