"""Tuning: the best a model can be at a budget, searched for without labels and without training."""
