"""URLs are read strictly: what is an address is known to be one, and what two readers could read in two ways is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outbound import InvalidUrl, check_url


@pytest.mark.parametrize(
    ("text", "scheme", "host", "port", "target", "authority"),
    [
        ("https://example.com", "https", "example.com", 443, b"/", "example.com"),
        ("HTTPS://EXAMPLE.com./hook?a=1&b=%20", "https", "example.com", 443, b"/hook?a=1&b=%20", "example.com"),
        ("http://example.com:80/", "http", "example.com", 80, b"/", "example.com"),
        ("http://example.com:8080?x", "http", "example.com", 8080, b"/?x", "example.com:8080"),
        ("https://[2606:4700::1111]:8443/a", "https", "2606:4700::1111", 8443, b"/a", "[2606:4700::1111]:8443"),
        ("https://[2606:4700:0000::1111]/", "https", "2606:4700::1111", 443, b"/", "[2606:4700::1111]"),
        ("https://bücher.example/", "https", "xn--bcher-kva.example", 443, b"/", "xn--bcher-kva.example"),
        ("http://my_service/", "http", "my_service", 80, b"/", "my_service"),
        ("http://1.2.3.4.example/", "http", "1.2.3.4.example", 80, b"/", "1.2.3.4.example"),
    ],
)
def test_a_url_is_read_into_its_parts(text, scheme, host, port, target, authority):
    url = check_url(text)
    assert (url.scheme, url.host, url.port, url.target, url.authority) == (scheme, host, port, target, authority)
    assert check_url(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com/hook",
        "//example.com/",
        "https:///hook",
        "https://:443/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/_x",
        "javascript:alert(1)",
        "unix:///var/run/docker.sock",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://example.com@169.254.169.254/",
        "https://example.com\\@169.254.169.254/",
        "https://169.254.169.254\\.example.com/",
        "https://example.com/#fragment",
        "https://example.com#@169.254.169.254/",
        " https://example.com/",
        "https://example.com/a b",
        "https://example.com/\r\nHost: inside",
        "https://example.com/\x00",
        "https://example.com/%0",
        "https://example.com/%zz",
        "https://example.com/é",
        "https://exa mple.com/",
        "https://exa\tmple.com/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:-1/",
        "https://example.com:+80/",
        "https://example.com:٨٠/",
        "https://example.com:/",
        "https://example..com/",
        "https://-example.com/",
        "https://example.com../",
        "https://%31%32%37.0.0.1/",
        "https://exam%70le.com/",
        "https://" + "a" * 64 + ".com/",
        "https://" + "a." * 127 + "com/",
        "https://example.com/" + "a" * 2048,
        "https://[::1/",
        "https://::1/",
        "https://[fe80::1%25eth0]/",
        "https://[fe80::1%eth0]/",
        "https://[v1.x]/",
        "https://[127.0.0.1]/",
        "https://[::1]x/",
        "https://\u202eexample.com/",
    ],
)
def test_what_is_no_url_of_an_endpoint_is_refused(text):
    with pytest.raises(InvalidUrl):
        check_url(text)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",  # decimal
        "017700000001",  # octal
        "0x7f000001",  # hexadecimal
        "0x7F000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "127.0.0.0x1",
        "0",
        "0x",
        "127.0.0.1.0",
        "256.256.256.256",
        "127.0.0.1..",
        "a.127.0.0.1",
        "4294967296",
        "\uff10\uff58\uff17\uff46.1",  # full-width
        "①②⑦.1",
        "2852039166",  # 169.254.169.254
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.43518",
    ],
)
def test_an_ipv4_address_in_any_other_form_than_four_decimal_numbers_is_refused(host):
    with pytest.raises(InvalidUrl):
        check_url(f"http://{host}/")


@pytest.mark.parametrize("host", ["127.0.0.1.", "127。0。0。1", "１２７.0.0.1", "①②⑦.0.0.1"])
def test_what_becomes_four_decimal_numbers_is_known_to_be_that_address(host):
    assert str(check_url(f"http://{host}/").address) == "127.0.0.1"


@given(st.text(max_size=60))
def test_any_text_is_a_url_or_refused(text):
    for candidate in (text, f"https://{text}/", f"https://example.com/{text}"):
        try:
            url = check_url(candidate)
        except InvalidUrl:
            continue
        assert url.host.isascii()
        assert not set(url.target) & set(b" \r\n\t\x00#")
        assert check_url(str(url)) == url
