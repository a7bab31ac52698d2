"""What a component is worth to the predictions: changes of its output and their effect, with intervals."""
