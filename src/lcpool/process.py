"""The id of the process that first imported lcpool: a fork of it lacks its threads."""

import os

PROCESS = os.getpid()
