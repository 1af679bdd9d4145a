/* Which of the flight recorder's programs are timed (common/run_timer.h). */
#pragma once

enum {
    RECORDER_TIMER_SWITCH,
    RECORDER_TIMER_WAKING,
    RECORDER_TIMER_EXIT,
    RECORDER_TIMER_PAGES,
    RECORDER_TIMER_DISK,
    RECORDER_TIMERS
};
