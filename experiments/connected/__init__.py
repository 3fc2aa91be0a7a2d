"""Which way to keep every pooled graph connected: the trial that decides it."""
