/* The two pages that web/build.mjs makes, as part of the program: the agent's page, and the flame graph that
 * stands alone, into which the HTML exporter puts a profile. Bytes without a NUL in them, followed by one. */
#pragma once

#include <stddef.h>

extern const char web_page_html[], web_page_html_end[];
extern const char web_page_policy[]; /* its Content-Security-Policy */
extern const char web_flame_html[], web_flame_html_end[];

#define WEB_FLAME_TITLE       "@SONDE_TITLE@"
#define WEB_FLAME_PLACEHOLDER "@SONDE_PROFILE@" /* behind it */

static inline size_t web_page_html_size(void)
{
    return (size_t)(web_page_html_end - web_page_html);
}

static inline size_t web_flame_html_size(void)
{
    return (size_t)(web_flame_html_end - web_flame_html);
}
