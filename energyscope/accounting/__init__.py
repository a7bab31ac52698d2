"""From a profile's journal to the energy of each component, sums and grades. Pure functions over plain data."""
