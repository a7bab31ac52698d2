"""Figures for papers: the report's charts at physical sizes, several panels on a sheet, as PNG, SVG and PDF."""
