"""Altair charts, drawn from the plain data of ``reporting.data``; the report and the figures share them."""
