"""The health check before deployment: what a model's tokens do under reduction, and how far it can be compressed."""
