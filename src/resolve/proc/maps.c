/* Parses lines of /proc/PID/maps; see maps.h and proc(5):
 *
 *     55d0c8a00000-55d0c8a21000 r-xp 00002000 fd:01 1835026   /usr/bin/cat
 *
 * A process may have tens of thousands of them and mostly the executable ones matter, so the permissions are checked
 * before anything else is parsed. The kernel prints line feeds in paths as \012, so they cannot break a line. */
#include "resolve/proc/maps.h"

#include <string.h>

struct text {
    const char *at, *end;
    bool failed;
};

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 16;
}

/* Consumes a number of at least one digit and the character `after`, which must follow it. */
static uint64_t take_number(struct text *t, int base, char after)
{
    uint64_t value = 0;
    const char *start = t->at;
    for (; t->at < t->end && digit_value(*t->at) < base; t->at++) {
        if (value > (UINT64_MAX - base) / base)
            t->failed = true;
        value = value * base + digit_value(*t->at);
    }
    if (t->at == start || t->at == t->end || *t->at != after) {
        t->failed = true;
        return 0;
    }
    t->at++;
    return value;
}

static bool parse_line(const char *line, size_t size, bool only_executable, struct maps_line *ret)
{
    struct text t = {.at = line, .end = line + size};
    struct maps_line m = {0};
    m.start = take_number(&t, 16, '-');
    m.end = take_number(&t, 16, ' ');
    if (t.failed || t.end - t.at < 5)
        return false;
    m.executable = t.at[2] == 'x';
    if (only_executable && !m.executable)
        return false;
    t.at += 5;
    m.file_offset = take_number(&t, 16, ' ');
    m.device_major = (uint32_t)take_number(&t, 16, ':');
    m.device_minor = (uint32_t)take_number(&t, 16, ' ');
    /* A mapping without a name ends after the inode, with or without the blank. */
    const char *inode = t.at;
    while (t.at < t.end && *t.at >= '0' && *t.at <= '9')
        m.inode = m.inode * 10 + (uint64_t)(*t.at++ - '0');
    if (t.at == inode || t.failed || m.end <= m.start)
        return false;
    while (t.at < t.end && *t.at == ' ')
        t.at++;
    m.path = t.at;
    m.path_bytes = (size_t)(t.end - t.at);
    *ret = m;
    return true;
}

static bool next_line(struct cursor *text, bool only_executable, struct maps_line *ret)
{
    size_t left;
    while ((left = cursor_left(text)) > 0) {
        const char *line = (const char *)text->data + text->position;
        const char *feed = memchr(line, '\n', left);
        size_t size = feed ? (size_t)(feed - line) : left;
        cursor_skip(text, feed ? size + 1 : size);
        if (parse_line(line, size, only_executable, ret))
            return true;
    }
    return false;
}

bool maps_next_executable(struct cursor *text, struct maps_line *ret)
{
    return next_line(text, true, ret);
}

bool maps_next(struct cursor *text, struct maps_line *ret)
{
    return next_line(text, false, ret);
}

size_t maps_path_without_deleted(const char *path, size_t bytes)
{
    static const char suffix[] = " (deleted)";
    const size_t n = sizeof(suffix) - 1;
    return bytes > n && memcmp(path + bytes - n, suffix, n) == 0 ? bytes - n : bytes;
}
