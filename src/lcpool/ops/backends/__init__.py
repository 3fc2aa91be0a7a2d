"""All kernels of one kind, gathered from the operations."""
