/* A profile as one self-contained HTML file: web/flame.html with the speedscope JSON in place of the placeholder. */
#include "export/html.h"

#include "base/units.h"
#include "export/export.h"
#include "web_assets.h"

#include <errno.h>
#include <string.h>

const struct html_page html_page_flame = {web_flame_html, web_flame_html_end};

static const char *find_place(const struct html_page *page, const char *placeholder)
{
    return memmem(page->start, (size_t)(page->end - page->start), placeholder, strlen(placeholder));
}

static int put_text(struct buf *out, const char *text)
{
    _cleanup_buf_ struct buf clean = {0};
    buf_put_shown(&clean, text);
    for (size_t i = 0; i < clean.size; i++)
        if (clean.data[i] == '<')
            buf_puts(out, "&lt;");
        else if (clean.data[i] == '&')
            buf_puts(out, "&amp;");
        else
            buf_putc(out, clean.data[i]);
    return buf_error(&clean);
}

int html_put_head(const struct html_page *page, const char *title, struct buf *out)
{
    const char *of_title = find_place(page, WEB_TITLE), *place = find_place(page, WEB_PLACEHOLDER);
    if (!of_title || !place)
        return -ENODATA;
    buf_append(out, page->start, (size_t)(of_title - page->start));
    int r = put_text(out, title);
    of_title += strlen(WEB_TITLE);
    return r < 0 ? r : buf_append(out, of_title, (size_t)(place - of_title));
}

int html_put_tail(const struct html_page *page, struct buf *out)
{
    const char *place = find_place(page, WEB_PLACEHOLDER);
    if (!place)
        return -ENODATA;
    place += strlen(WEB_PLACEHOLDER);
    return buf_append(out, place, (size_t)(page->end - place));
}

const char *html_title_of(const char *type)
{
    static const struct {
        const char *type, *words;
    } times[] = {{"cpu", "CPU time"}, {"off_cpu", "off-CPU time"}, {"wall", "wall-clock time"}};
    for (size_t i = 0; i < array_size(times); i++)
        if (strcmp(times[i].type, type) == 0)
            return times[i].words;
    return type;
}

/* Appends what the profile covers: one process, one program, or several processes. */
static void put_scope(struct buf *title, const struct profile *p)
{
    const struct profile_resource *first = p->resources;
    bool is_one_process = p->resource_count > 0, is_one_program = is_one_process;
    for (uint32_t i = 1; i < p->resource_count; i++) {
        is_one_process = is_one_process && p->resources[i].pid == first->pid;
        is_one_program = is_one_program && p->resources[i].command == first->command;
    }
    if (is_one_process && is_one_program)
        buf_printf(title, " of %s (pid %u)", profile_text(p, first->command), first->pid);
    else if (is_one_program)
        buf_printf(title, " of %s", profile_text(p, first->command));
    else if (p->resource_count)
        buf_puts(title, " of several processes");
}

static int put_titled_head(struct buf *out, const struct profile *p)
{
    _cleanup_buf_ struct buf title = {0};
    char duration[32];
    buf_printf(&title, "Sonde: %s", html_title_of(p->type->name));
    put_scope(&title, p);
    if (p->duration_ns)
        buf_printf(&title, ", %s", units_format_duration(p->duration_ns, duration, sizeof(duration)));
    return buf_error(&title) ? buf_error(&title) : html_put_head(&html_page_flame, title.data, out);
}

static int html_write(const struct profile *p, struct buf *out)
{
    int r = put_titled_head(out, p);
    if (r == 0)
        r = exporter_speedscope.write(p, out);
    if (r == 0)
        r = html_put_tail(&html_page_flame, out);
    return r < 0 ? r : buf_error(out);
}

const struct exporter exporter_html = {
    .name = "html",
    .suffix = ".html",
    .content_type = "text/html; charset=utf-8",
    .help = "self-contained flame graph for any browser",
    .write = html_write,
};
