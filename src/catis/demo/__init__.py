"""`catis demo`: the whole story on embedded models and data, offline. Nothing heavy is imported until it is needed."""
