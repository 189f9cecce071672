"""One traced run of a model gives its axes."""
