/* The skeleton of io.bpf.c, behind the headers whose types it uses. */
#pragma once

#include "base/cleanup.h"

#include <linux/types.h>

#include "probes/common/run_timer.h"
#include "probes/common/task_filter.h"
#include "probes/io.h"

#include "io.skel.h"
