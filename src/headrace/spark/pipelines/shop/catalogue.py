"""What the shop sells: a small, fixed catalogue, and which things people like to take together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Product:
    product: str
    name: str
    category: str
    price_cents: int
    goes_with: tuple[str, ...] = ()


CATALOGUE = (
    Product("P-101", "Moka pot, 3 cups", "coffee", 2990, ("P-103", "P-104")),
    Product("P-102", "Hand grinder", "coffee", 5490, ("P-103", "P-105")),
    Product("P-103", "Espresso beans, 1 kg", "coffee", 1890, ("P-104",)),
    Product("P-104", "Espresso cups, set of 4", "coffee", 2490, ("P-103",)),
    Product("P-105", "Pour-over filters, 100", "coffee", 690, ("P-102", "P-103")),
    Product("P-106", "Milk frother", "coffee", 1990, ("P-104",)),
    Product("P-201", "Sourdough starter kit", "baking", 1590, ("P-202", "P-203")),
    Product("P-202", "Proofing basket", "baking", 1890, ("P-201", "P-204")),
    Product("P-203", "Bread flour, 5 kg", "baking", 1190, ("P-201",)),
    Product("P-204", "Dough scraper", "baking", 590, ("P-202",)),
    Product("P-205", "Cast-iron loaf pan", "baking", 3990, ("P-203", "P-204")),
    Product("P-301", "Chef's knife, 20 cm", "knives", 8990, ("P-303", "P-302")),
    Product("P-302", "Chopping board, oak", "knives", 4490, ("P-301",)),
    Product("P-303", "Whetstone 1000/6000", "knives", 3490, ("P-301", "P-304")),
    Product("P-304", "Paring knife", "knives", 2990, ("P-303",)),
    Product("P-401", "Herb planter", "garden", 2290, ("P-402", "P-403")),
    Product("P-402", "Basil, seeds", "garden", 290, ("P-401", "P-403")),
    Product("P-403", "Thyme, seeds", "garden", 290, ("P-402",)),
    Product("P-404", "Watering can, 5 l", "garden", 2790, ("P-401",)),
    Product("P-501", "Apron, linen", "textiles", 3290, ("P-502",)),
    Product("P-502", "Tea towels, set of 3", "textiles", 1490, ("P-501",)),
    Product("P-503", "Oven mitts", "textiles", 1690, ("P-205", "P-502")),
)

BY_NUMBER = {product.product: product for product in CATALOGUE}
