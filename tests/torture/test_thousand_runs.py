"""Many runs of every temper, several at once, leave nothing behind; and nothing outlives its host."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

RUNS = int(os.environ.get("METIER_TORTURE_RUNS", "100"))
SEED = int(os.environ.get("METIER_TORTURE_SEED", "1"))
HERE = Path(__file__).parent
SECONDS = 120 + RUNS
"""Far more than it takes: what is slow here is found out by the time limits of the runs themselves."""
