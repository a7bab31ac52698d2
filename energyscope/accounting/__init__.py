"""The books of a profile: from its journal to energies, closure and grades. Pure functions over plain data."""
