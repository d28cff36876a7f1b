"""The program of the child process that parses: a job on its input, the result on its output.

It imports only the parsers, so that it starts fast, and never the server.
"""

import gc
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

from queuegate_server.policystore import transfer
from queuegate_server.policystore.parsing import CheckJob, check, parse

OUT_OF_MEMORY: Final = 3
FAILED: Final = 4


def main() -> None:
    """Parse the job, and end with a status that says what went wrong."""
    # Without cleaning up: there may be no memory for it, and it takes time.
    os._exit(_run())


def _run() -> int:
    gc.disable()
    with suppress(OSError):
        # If the machine runs out of memory, this process goes first.
        Path("/proc/self/oom_score_adj").write_text("1000")
    output = sys.stdout.buffer
    try:
        data = sys.stdin.buffer.read()
        job = transfer.decode_job(data)
        del data
        if isinstance(job, CheckJob):
            lines = transfer.encode_result(check(job), {})
        else:
            lines = transfer.encode_result(parse(job), job.acl_names)
        output.writelines(lines)
        output.flush()
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception:
        output.write(traceback.format_exc().encode(errors="replace"))
        output.flush()
        return FAILED
    return 0
