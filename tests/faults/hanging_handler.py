"""In the place of math-verify, in the process that judges: it hangs, dies, talks nonsense, or answers, in turn.

Loaded by `scalerl.verify.guarded`, in a process that has nothing of scalerl or of these tests.
"""

import os
import time
from collections.abc import Callable
from typing import Any


def prepare(_: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def answer(request: dict[str, Any]) -> dict[str, Any]:
        match request["id"] % 8:
            case 0:
                while True:
                    time.sleep(0.0)
            case 1:
                os._exit(7)
            case 2:
                return {"what": "perhaps", "unread": 7}
            case _:
                return {"same": request["id"] % 2 == 0}

    return answer
