"""Plan: a precision for each group of linears that saves the most inside a budget for the predictions."""
