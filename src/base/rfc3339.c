/* Moments in text; see rfc3339.h. */
#include "base/rfc3339.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ull

/* Reads `count` digits, whose number must be from `min` to `max`, and moves `*text` behind them. */
static bool read_digits(const char **text, int count, int min, int max, int *ret)
{
    int number = 0;
    for (int i = 0; i < count; i++, (*text)++) {
        if (!isdigit((unsigned char)**text))
            return false;
        number = 10 * number + (**text - '0');
    }
    *ret = number;
    return number >= min && number <= max;
}

static bool read_mark(const char **text, const char *marks)
{
    return **text && strchr(marks, *(*text)++);
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && is_leap);
}

static bool read_date(const char **text, struct tm *ret)
{
    int year, month;
    if (!read_digits(text, 4, 1970, 2099, &year) || !read_mark(text, "-") || !read_digits(text, 2, 1, 12, &month) ||
        !read_mark(text, "-") || !read_digits(text, 2, 1, days_of_month(year, month), &ret->tm_mday))
        return false;
    ret->tm_year = year - 1900;
    ret->tm_mon = month - 1;
    return true;
}

static bool read_time(const char **text, struct tm *ret)
{
    return read_digits(text, 2, 0, 23, &ret->tm_hour) && read_mark(text, ":") &&
           read_digits(text, 2, 0, 59, &ret->tm_min) && read_mark(text, ":") &&
           read_digits(text, 2, 0, 59, &ret->tm_sec);
}

static bool read_fraction(const char **text, uint64_t *ret_ns)
{
    uint64_t unit = SECOND_NS;
    *ret_ns = 0;
    if (**text != '.')
        return true;
    for ((*text)++; isdigit((unsigned char)**text) && unit > 1; (*text)++) {
        unit /= 10;
        *ret_ns += unit * (uint64_t)(**text - '0');
    }
    return unit < SECOND_NS;
}

static bool read_offset(const char **text, int *ret_s)
{
    int hours, minutes;
    const char sign = **text;
    *ret_s = 0;
    if (sign == 'Z' || sign == 'z')
        return read_mark(text, "Zz");
    if (!read_mark(text, "+-") || !read_digits(text, 2, 0, 23, &hours) || !read_mark(text, ":") ||
        !read_digits(text, 2, 0, 59, &minutes))
        return false;
    *ret_s = (sign == '-' ? -60 : 60) * (60 * hours + minutes);
    return true;
}

int rfc3339_parse_ns(const char *text, uint64_t *ret_unix_ns)
{
    struct tm tm = {0};
    uint64_t fraction_ns;
    int offset_s;
    if (!read_date(&text, &tm) || !read_mark(&text, "Tt") || !read_time(&text, &tm) ||
        !read_fraction(&text, &fraction_ns) || !read_offset(&text, &offset_s) || *text)
        return -EINVAL;
    const time_t unix_s = timegm(&tm) - offset_s;
    if (unix_s < 0)
        return -EINVAL;
    *ret_unix_ns = (uint64_t)unix_s * SECOND_NS + fraction_ns;
    return 0;
}

const char *rfc3339_format_ns(uint64_t unix_ns, char out[RFC3339_BYTES])
{
    const time_t unix_s = (time_t)(unix_ns / SECOND_NS);
    struct tm tm;
    char seconds[32];
    gmtime_r(&unix_s, &tm);
    strftime(seconds, sizeof(seconds), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, RFC3339_BYTES, "%s.%09uZ", seconds, (unsigned)(unix_ns % SECOND_NS));
    return out;
}
