"""The page of scaling laws: sentences, tables and charts of a laws.json, of which nothing is fitted again."""
