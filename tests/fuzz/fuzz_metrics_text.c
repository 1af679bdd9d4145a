/* Metrics in Prometheus' text format: every name and value of a series is inside the text. */
#include "import/metrics_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *at = text;
    struct metrics_text_series s;
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    while (metrics_text_next(&at, &s)) {
        if (!s.name[0] || s.label_count > METRICS_TEXT_LABELS_MAX || at > text + size)
            abort();
        for (size_t i = 0; i < s.label_count; i++)
            if (s.labels[i].value + strlen(s.labels[i].value) > text + size)
                abort();
    }
    free(text);
    return 0;
}
