/* Whether the numbers that the kernel half gives processes are those that we see in /proc: they are of the
 * host's PID namespace. */
#pragma once

#include "model/attach.h"

/* -EXDEV, with an entry in `report` that says so, when we run in another PID namespace. */
int pid_namespace_check(struct attach_report *report);
