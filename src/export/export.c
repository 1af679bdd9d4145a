/* Table of exporters; see export.h. */
#include "export/export.h"

#include <stdbool.h>
#include <string.h>

const struct exporter *const exporters[] = {
    &exporter_pprof, &exporter_folded, &exporter_speedscope, &exporter_html, NULL,
};

/* Further file name suffixes in use for these formats. */
static const struct {
    const char *suffix;
    const struct exporter *exporter;
} aliases[] = {
    {".pprof", &exporter_pprof},
    {".pprof.gz", &exporter_pprof},
    {".txt", &exporter_folded},
    {".collapsed", &exporter_folded},
};

const struct exporter *exporter_by_name(const char *name)
{
    for (const struct exporter *const *e = exporters; *e; e++)
        if (strcmp((*e)->name, name) == 0)
            return *e;
    return NULL;
}

static bool ends_with(const char *path, const char *suffix)
{
    size_t path_size = strlen(path), size = strlen(suffix);
    return path_size >= size && strcmp(path + path_size - size, suffix) == 0;
}

const struct exporter *exporter_by_path(const char *path)
{
    for (const struct exporter *const *e = exporters; *e; e++)
        if (ends_with(path, (*e)->suffix))
            return *e;
    for (size_t i = 0; i < array_size(aliases); i++)
        if (ends_with(path, aliases[i].suffix))
            return aliases[i].exporter;
    return NULL;
}
