/* An exporter: a profile in one of the formats that others read. One file an implementation, one line in export.c's
 * literal array, one test of the same name. Pure: output depends on the profile alone. */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

struct exporter {
    const char *name;         /* "pprof", "folded", "html", "json" */
    const char *suffix;       /* file name ending that picks it: ".pb.gz", ".folded", ".html", ".json" */
    const char *content_type; /* for HTTP */
    const char *help;
    int (*write)(const struct profile *p, struct buf *out);
};

extern const struct exporter exporter_pprof, exporter_folded, exporter_html, exporter_speedscope;

/* All of them, ended by NULL. */
extern const struct exporter *const exporters[];

/* By name or by the ending of a file name; NULL when none fits. */
const struct exporter *exporter_by_name(const char *name);
const struct exporter *exporter_by_path(const char *path);
