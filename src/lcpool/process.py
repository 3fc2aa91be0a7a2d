"""The process in which this package was first imported; forked ones lack the threads it had."""

import os

PROCESS = os.getpid()
