/* Command lines: one argument per line, as sonde_trace_config_take gets them; then the checks at the end. */
#include "trace/config.h"

#include <sonde/trace.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[66] = {"server"}, why[SONDE_TRACE_WHY_SIZE] = "", *p = text;
    struct sonde_trace_config *config, *copy;
    int argc = 1;
    if (!text || sonde_trace_config_new(&config) < 0)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    while (p && argc < 65)
        argv[argc++] = strsep(&p, "\n");
    int before = argc, r = sonde_trace_config_take(config, &argc, argv, why, sizeof(why));
    if (r < 0 ? argc != before || !*why : argc > before || argv[argc] != NULL)
        abort();
    trace_config_check(config, why, sizeof(why));
    if (trace_config_copy(config, &copy) == 0)
        sonde_trace_config_free(copy);
    sonde_trace_config_free(config);
    free(text);
    return 0;
}
