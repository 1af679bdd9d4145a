/* A manager with a file in a directory of its own, and access to its files: for the tests of lib/trace. */
#pragma once

#include "../../emulated.h"
#include "attached.h"
#include "trace/manager.h"

#include <sonde/trace.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
    char folder[64], file[96];
    struct sonde_trace_manager *manager;
    struct sonde_trace_model *model; /* "m", version 1 */
    int errors;                      /* calls of on_error */
    char message[512];
    int error;
};

static inline void fixture_on_error(void *argument, int error, const char *message)
{
    struct fixture *f = argument;
    f->errors++;
    f->error = error;
    snprintf(f->message, sizeof(f->message), "%s", message);
}

static inline void fixture_open_with(struct fixture *f, struct sonde_trace_options options, const char *const *settings)
{
    char why[SONDE_TRACE_WHY_SIZE] = "", file[128];
    struct sonde_trace_config *config;
    *f = (struct fixture){.folder = "/tmp/sonde-trace-XXXXXX"};
    assert_non_null(mkdtemp(f->folder));
    snprintf(f->file, sizeof(f->file), "%s/t.json", f->folder);
    snprintf(file, sizeof(file), "triton,file=%s", f->file);
    assert_int_equal(sonde_trace_config_new(&config), 0);
    assert_int_equal(sonde_trace_config_set(config, "--trace-config", file, why, sizeof(why)), 0);
    for (; *settings; settings++)
        if (sonde_trace_config_set(config, "--trace-config", *settings, why, sizeof(why)) < 0)
            fail_msg("%s", why);
    options.size = sizeof(options);
    options.on_error = fixture_on_error;
    options.argument = f;
    assert_int_equal(sonde_trace_manager_new(config, &options, &f->manager, why, sizeof(why)), 0);
    assert_int_equal(sonde_trace_model_new(f->manager, "m", 1, &f->model), 0);
    sonde_trace_config_free(config);
}

#define fixture_open(f, ...)                                                                                           \
    fixture_open_with((f), (struct sonde_trace_options){0}, (const char *const[]){__VA_ARGS__, NULL})

static inline void fixture_close(struct fixture *f)
{
    char command[160];
    sonde_trace_model_free(f->model);
    sonde_trace_manager_free(f->manager);
    f->manager = NULL;
    snprintf(command, sizeof(command), "rm -rf %s", f->folder);
    FILE *done = popen(command, "r");
    if (done)
        pclose(done);
}

/* The text of FILE + suffix, freed by the caller; NULL if it does not exist. */
static inline char *fixture_read(const struct fixture *f, const char *suffix)
{
    char path[160];
    snprintf(path, sizeof(path), "%s%s", f->file, suffix);
    FILE *in = fopen(path, "r");
    if (!in)
        return NULL;
    assert_int_equal(fseek(in, 0, SEEK_END), 0);
    long size = ftell(in);
    rewind(in);
    char *text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, in), size);
    text[size] = '\0';
    fclose(in);
    return text;
}

static inline void fixture_expect(struct fixture *f, const char *suffix, const char *expected)
{
    assert_int_equal(sonde_trace_manager_flush(f->manager, 20000), 0);
    char *text = fixture_read(f, suffix);
    if (!text)
        fail_msg("no file %s%s", f->file, suffix);
    assert_string_equal(text, expected);
    free(text);
}

static inline struct sonde_trace_stats fixture_stats(struct fixture *f)
{
    struct sonde_trace_stats stats;
    sonde_trace_manager_stats(f->manager, &stats, sizeof(stats));
    return stats;
}

/* For tests whose child has threads of its own, which ThreadSanitizer and qemu-user do not support. */
static inline void fixture_need_threads_after_fork(void)
{
#ifdef __SANITIZE_THREAD__
    bool tsan = true;
#else
    bool tsan = false;
#endif
    if (tsan || is_emulated()) {
        print_message("%s cannot start threads in a child of threads\n", tsan ? "ThreadSanitizer" : "qemu-user");
        skip();
    }
}
