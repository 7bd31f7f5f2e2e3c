"""The world the bank's customers live in: cities, shops, names. Nothing here is computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class City:
    name: str
    lat: float
    lon: float


@dataclass(frozen=True, slots=True)
class Shop:
    """`usual` is the middle of what people pay there, in euros; `share` how often they go, against the other shops."""

    name: str
    category: str
    usual: float
    share: int
    online: bool = False


HOMES = (
    City("Berlin", 52.52, 13.405),
    City("Paris", 48.857, 2.352),
    City("Madrid", 40.417, -3.703),
    City("Rome", 41.893, 12.483),
    City("Vienna", 48.208, 16.372),
    City("Lisbon", 38.722, -9.139),
    City("Dublin", 53.35, -6.26),
    City("Helsinki", 60.17, 24.938),
    City("Athens", 37.984, 23.728),
    City("Amsterdam", 52.37, 4.895),
)
ABROAD = (
    City("New York", 40.713, -74.006),
    City("Tokyo", 35.677, 139.65),
    City("Sydney", -33.869, 151.209),
    City("São Paulo", -23.551, -46.633),
    City("Bangkok", 13.756, 100.502),
    City("Cape Town", -33.925, 18.424),
    City("Vancouver", 49.283, -123.121),
)
SHOPS = (
    Shop("Corner Bakery", "groceries", 6, 14),
    Shop("Fresh Market", "groceries", 28, 18),
    Shop("Big Basket", "groceries", 55, 10),
    Shop("Café Aroma", "restaurants", 5, 12),
    Shop("Trattoria Sole", "restaurants", 34, 7),
    Shop("Noodle House", "restaurants", 16, 8),
    Shop("Metro Tickets", "transport", 4, 10),
    Shop("City Fuel", "transport", 52, 4),
    Shop("Taxi Union", "transport", 18, 3),
    Shop("Pharmacy Plus", "health", 14, 4),
    Shop("Book Nook", "leisure", 19, 3),
    Shop("Cinema Rex", "leisure", 13, 3),
    Shop("Style Street", "clothing", 48, 4),
    Shop("Home & Garden", "household", 44, 3),
    Shop("StreamBox", "online", 12, 3, online=True),
    Shop("Everything Online", "online", 31, 7, online=True),
)
# Where stolen cards are used: tried out in bursts, and emptied at once.
TRIED_AT = (Shop("Gift Cards Now", "online", 25, 1, online=True), Shop("Game Coins", "online", 15, 1, online=True))
EMPTIED_AT = (Shop("Gold & Watches", "luxury", 1, 1), Shop("Electro Palace", "electronics", 1, 1))

FIRST_NAMES = (
    *("Ada", "Bruno", "Clara", "Dimitri", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Katja", "Liam"),
    *("Mira", "Nikos", "Olga", "Pablo", "Rosa", "Samir", "Tilda", "Umberto", "Vera", "Wim", "Yara", "Zoe"),
)
LAST_NAMES = (
    *("Almeida", "Berger", "Costa", "Dubois", "Eriksson", "Fischer", "Garcia", "Hoffmann", "Ivanova", "Jansen"),
    *("Keller", "Lindgren", "Moreau", "Novak", "O'Brien", "Papadakis", "Rossi", "Silva", "Torres", "Virtanen"),
)
EMPLOYERS = ("Northwind GmbH", "Globex SA", "Initech Oy", "Umbra SpA", "Vehement BV")
LANDLORDS = ("Habitat Homes", "Old Town Estates", "Riverside Living")
