"""Sets of ASCII characters as numbers, one bit for each of the 128 codes, and the names RE2 has for some of them."""

from __future__ import annotations

import unicodedata

ASCII = (1 << 128) - 1


def bits_of_range(lo: int, hi: int) -> int:
    """The ASCII characters of a range of code points."""
    lo, hi = max(lo, 0), min(hi, 127)
    return (1 << hi + 1) - (1 << lo) if lo <= hi else 0


def bits_of(text: str) -> int:
    bits = 0
    for char in text:
        bits |= 1 << ord(char)
    return bits


_DIGIT = bits_of_range(0x30, 0x39)
_UPPER, _LOWER = bits_of_range(0x41, 0x5A), bits_of_range(0x61, 0x7A)
_ALPHA = _UPPER | _LOWER
WORD = _DIGIT | _ALPHA | bits_of("_")
PERL = {"d": _DIGIT, "s": bits_of("\t\n\f\r "), "w": WORD}
POSIX = {
    "alnum": _DIGIT | _ALPHA,
    "alpha": _ALPHA,
    "ascii": ASCII,
    "blank": bits_of("\t "),
    "cntrl": bits_of_range(0, 0x1F) | 1 << 0x7F,
    "digit": _DIGIT,
    "graph": bits_of_range(0x21, 0x7E),
    "lower": _LOWER,
    "print": bits_of_range(0x20, 0x7E),
    "punct": bits_of_range(0x21, 0x2F) | bits_of_range(0x3A, 0x40) | bits_of_range(0x5B, 0x60) | bits_of_range(0x7B, 0x7E),
    "space": bits_of("\t\n\v\f\r "),
    "upper": _UPPER,
    "word": WORD,
    "xdigit": _DIGIT | bits_of("abcdefABCDEF"),
}
_CATEGORIES_NAMES = """
    C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs
"""
_CATEGORIES = frozenset(_CATEGORIES_NAMES.split())
_SCRIPTS_NAMES = """
    Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
    Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
    Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
    Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
    Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
    Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""
_SCRIPTS = frozenset(_SCRIPTS_NAMES.split())
OUTSIDE_FOLDS = {
    0x17F: bits_of("sS"),
    0x212A: bits_of("kK"),
}  # the long s and the Kelvin sign are ASCII when case does not count


def folded(bits: int) -> int:
    return bits | (bits & _UPPER) << 32 | (bits & _LOWER) >> 32


def unicode_class(name: str) -> int | None:
    if name == "Any":
        return ASCII
    if name in _CATEGORIES:
        return sum(1 << code for code in range(128) if unicodedata.category(chr(code)).startswith(name))
    if name in _SCRIPTS:
        return _ALPHA if name == "Latin" else ASCII & ~_ALPHA if name == "Common" else 0
    return None
