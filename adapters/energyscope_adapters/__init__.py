"""Adapters of the model families that energyscope ships: one declarative file each."""
