/* An exporter writes a profile in one output format. Each has its own file, an entry in the array in export.c, and a
 * test of the same name. Pure: the output depends on the profile only. */
#pragma once

#include "base/buf.h"
#include "model/profile.h"

struct exporter {
    const char *name;         /* "pprof", "folded", "html", "json" */
    const char *suffix;       /* file name suffix that selects it: ".pb.gz", ".folded", ".html", ".json" */
    const char *content_type; /* for HTTP */
    const char *help;
    /* Appends the file. 0 or -errno: `out` then has a part of it. */
    int (*write)(const struct profile *p, struct buf *out);
};

extern const struct exporter exporter_pprof, exporter_folded, exporter_html, exporter_speedscope;

/* All exporters, NULL-terminated. */
extern const struct exporter *const exporters[];

/* Finds an exporter by name or by the suffix of a file name; NULL: none. */
const struct exporter *exporter_by_name(const char *name);
const struct exporter *exporter_by_path(const char *path);
