"""One thread for all tests: on a shared machine, threads that wait for each other cost the most."""

import torch

torch.set_num_threads(1)
