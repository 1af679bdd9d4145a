/* The pages that web/build.mjs makes, as part of the program: the agent's page, that of all nodes (sonde
 * server), and three that stand alone, into which
 * an exporter puts its data: the flame graph of a profile, slow requests, and an I/O report. Bytes without a NUL in
 * them, followed by one. */
#pragma once

#include <stddef.h>

extern const char web_page_html[], web_page_html_end[];
extern const char web_page_policy[]; /* its Content-Security-Policy */
extern const char web_centre_html[], web_centre_html_end[];
extern const char web_centre_policy[];
extern const char web_flame_html[], web_flame_html_end[];
extern const char web_requests_html[], web_requests_html_end[];
extern const char web_io_html[], web_io_html_end[];

/* In the pages that stand alone. */
#define WEB_TITLE       "@SONDE_TITLE@"
#define WEB_PLACEHOLDER "@SONDE_DATA@" /* behind it */

static inline size_t web_page_html_size(void)
{
    return (size_t)(web_page_html_end - web_page_html);
}

static inline size_t web_centre_html_size(void)
{
    return (size_t)(web_centre_html_end - web_centre_html);
}

static inline size_t web_flame_html_size(void)
{
    return (size_t)(web_flame_html_end - web_flame_html);
}
