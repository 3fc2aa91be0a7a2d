from hypothesis import settings

# A deadline would be a wall-clock assertion: the first example of a test compiles kernels.
settings.register_profile("lcpool", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("lcpool")
