"""The charts: a few general drawings of tables, in Altair, for pages and for print alike."""
