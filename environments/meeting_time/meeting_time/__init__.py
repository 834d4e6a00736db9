from meeting_time.env import MeetingTimeEnv
from meeting_time.taskset import MeetingTimeTaskset

__all__ = ["MeetingTimeEnv", "MeetingTimeTaskset"]
