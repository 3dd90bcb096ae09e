"""What every test shares: property tests try the same examples on every machine."""

from hypothesis import settings

settings.register_profile("same-everywhere", derandomize=True, deadline=None)
settings.load_profile("same-everywhere")
