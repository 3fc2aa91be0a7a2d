"""Who trains: this process, worker processes on this machine (CUDA MPS), or a Ray cluster."""
