"""What a dimension is made of: expressions, layouts, and which dims are one axis."""
