"""Capture what each component is fed, and run one component again and again on it."""
