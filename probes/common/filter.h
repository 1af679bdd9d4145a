/* Which filters a profiling program applies (filter.bpf.h). Shared by BPF programs and user space. */
#pragma once

#include "probes/common/record.h"

struct filter_settings {
    __u32 skip_pid; /* 0: none */
    __u8 pids, cgroups, commands, users;
};
