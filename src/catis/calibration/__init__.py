"""Calibration: the weights learn the new token population in closed form, without labels and without gradients."""
