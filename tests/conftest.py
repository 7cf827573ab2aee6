from hypothesis import settings

# How long an example takes says nothing on a machine that others use too.
settings.register_profile("shared_machine", deadline=None)
settings.load_profile("shared_machine")
