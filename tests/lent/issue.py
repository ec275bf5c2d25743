"""Issues IDs with a snowflake library of somebody else, under the worker ID that it is given.

Appends them to the file that it names, eight bytes each: first to a pipe's worth in memory, then all of
them in one call, so that a kill leaves no half of an ID.
"""

import os
import struct
import sys
import time

from snowflake import SnowflakeGenerator

generator = SnowflakeGenerator(int(os.environ["WORKER"]))
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
while True:
    ids = [issued for issued in (next(generator) for _ in range(200)) if issued is not None]
    os.write(out, struct.pack(f"<{len(ids)}Q", *ids))
    time.sleep(0.004)
