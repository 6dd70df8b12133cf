"""One thread for all tests: on a shared machine, threads that wait for each other cost the most."""

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("specviz", deadline=None)  # other work must not fail a test
settings.load_profile("specviz")
