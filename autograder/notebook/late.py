"""What a late submission costs: pure arithmetic on course.yaml's `late` table."""

from __future__ import annotations

import math

from autograder.course_model import Late

DAY_S = 86_400


def penalty(score: float, seconds_late: float, late: Late) -> float:
    """The points that a `score` loses when it comes `seconds_late` after the due date.

    Within the grace nothing is lost. Beyond it, "zero" loses all, "daily" `per_day_percent` of the score
    for each day begun since the due date; never more than `max_percent` of the score.
    """
    if score <= 0 or seconds_late <= late.grace.total.total_seconds() or late.policy == "none":
        return 0.0
    if late.policy == "zero":
        return score
    days = math.ceil(seconds_late / DAY_S)
    return round(score * min(days * late.per_day_percent, late.max_percent) / 100, 6)
