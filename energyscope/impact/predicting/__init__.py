"""Predictors of impact that change nothing: from gradients, activations and weights."""
