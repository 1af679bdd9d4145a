/* Table of output formats for traces; see trace_format.h. */
#include "trace/export/trace_format.h"

#include <string.h>

const struct trace_format *const trace_formats[] = {&trace_format_otlp_json, &trace_format_otlp, &trace_format_chrome,
                                                    NULL};

const struct trace_format *trace_format_by_name(const char *name)
{
    for (const struct trace_format *const *f = trace_formats; *f; f++)
        if (strcmp((*f)->name, name) == 0)
            return *f;
    return NULL;
}
