/* The thread that moves segments from the spool into the engine. */
#pragma once

#include "base/cleanup.h"
#include "server/engine.h"
#include "server/spool.h"

struct loader;

/* Borrows both. 0 or -errno. */
int loader_start(struct spool *spool, struct engine *engine, struct loader **ret);
/* Stops the loader after the segment that is being inserted. Other segments stay in the spool. */
void loader_free(struct loader *l);
DEFINE_FREEP(loader)
