"""A web shop: visits, funnel, recommendations, orders."""
