/* Common to both OTLP encodings. */
#include "encoding.h"

#include <string.h>

const char *trace_outcome(const struct trace_span *span, size_t *ret_size)
{
    const struct sonde_trace *t = span->outcome;
    if (!t || t->status == SONDE_TRACE_OK)
        return NULL;
    const char *text = t->message_size > 0 ? t->message : t->status == SONDE_TRACE_CANCELLED ? "cancelled" : "";
    *ret_size = t->message_size > 0 ? t->message_size : strlen(text);
    return text;
}
