/* Checks that /proc shows the PIDs that BPF programs report: the PIDs of the host's PID namespace. */
#pragma once

#include "model/attach.h"

/* -EXDEV, with an explanatory entry in `report`, when this process runs in another PID namespace; else 0. */
int pid_namespace_check(struct attach_report *report);
