/* The data of one tenant: a spool, an engine with its tables, and what the server knows of the tenant's agents. Tenants
 * have nothing in common but the addresses: each has a directory and an engine process of its own, which the kernel
 * confines to it, so that no SQL of a reader reaches the rows, names or queries of another tenant. */
#pragma once

#include "base/cleanup.h"
#include "serve/tokens.h"
#include "server/api_http.h"
#include "server/engine.h"
#include "server/known_rows.h"
#include "server/loader.h"
#include "server/opamp_http.h"
#include "server/receiver.h"
#include "server/spool.h"

#include <limits.h>

struct tenant {
    char name[TENANT_BYTES]; /* "": the default tenant */
    char directory[PATH_MAX];
    struct spool *spool;
    struct engine *engine;
    struct loader *loader;
    struct known_rows *known;
    struct receiver receiver;
    struct opamp opamp;
    struct api api;
    uint64_t refused; /* batches that the log has reported */
};

struct tenant_options {
    const char *directory; /* of the server; absolute; locked by the caller */
    const char *library;   /* of the engine */
    unsigned keep_days;
    uint64_t spool_bytes, memory_bytes; /* of each tenant */
};

/* Makes the tenant's directory, if it is missing, and starts its parts. `name` "": the default tenant, whose directory
 * is the server's; others have DIRECTORY/tenants/NAME. 0, or -errno after the reason was logged. Borrows the options'
 * strings. */
int tenant_open(const struct tenant_options *options, const char *name, struct tenant **ret);
/* Ends in order: the loader, then the engine. What the engine does not have yet stays in the spool. */
void tenant_free(struct tenant *t);
DEFINE_FREEP(tenant)

/* To be called once a second. 0; -ENOTSUP: the data is of a newer version (logged). */
int tenant_tick(struct tenant *t);

/* Makes or migrates the tables of all tenants that have a directory. 0, or -errno after the reason was logged. */
int tenants_migrate(const struct tenant_options *options);
