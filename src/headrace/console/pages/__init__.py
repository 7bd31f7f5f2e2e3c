"""One file for each page, or a few that belong together. Each has PAGES."""
