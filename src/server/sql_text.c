/* Tokens of SQL as ClickHouse's lexer has them; see sql_text.h. */
#include "server/sql_text.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

struct token {
    const char *text;
    size_t size;
    bool is_word; /* a keyword, a name or a number that is not quoted */
};

struct lexer {
    const char *begin, *at, *end;
    const char *why; /* what this lexer may read otherwise than ClickHouse's was found; NULL: nothing */
};

static bool begins(const struct lexer *l, const char *text)
{
    const size_t size = strlen(text);
    return (size_t)(l->end - l->at) >= size && memcmp(l->at, text, size) == 0;
}

static void skip_past(struct lexer *l, const char *text)
{
    const char *found = memmem(l->at, (size_t)(l->end - l->at), text, strlen(text));
    l->at = found ? found + strlen(text) : l->end;
}

static bool is_word_part(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* ClickHouse's comments nest, so that one in another would end elsewhere. */
static void skip_comment(struct lexer *l)
{
    l->at += strlen("/*");
    const char *inside = l->at;
    skip_past(l, "*/");
    const size_t size = (size_t)(l->at - inside);
    if (size < 2 || memcmp(l->at - 2, "*/", 2) != 0 || memmem(inside, size, "/*", 2))
        l->why = "a comment must be closed and have no other comment in it";
}

static void skip_line(struct lexer *l)
{
    if (l->at > l->begin && *l->at == '-' && is_word_part(l->at[-1])) /* "1e--1" is a number and a minus */
        l->why = "a comment by -- must have a space before it";
    skip_past(l, "\n");
}

static void skip_spaces_and_comments(struct lexer *l)
{
    for (;;)
        if (l->at < l->end && isspace((unsigned char)*l->at))
            l->at++;
        else if (begins(l, "--") || begins(l, "//") || begins(l, "#!") || begins(l, "# "))
            skip_line(l);
        else if (begins(l, "/*"))
            skip_comment(l);
        else
            return;
}

/* A quotation mark in a string is doubled, which is as good as two strings, or escaped. */
static void skip_quoted(struct lexer *l, char quote)
{
    for (l->at++; l->at < l->end && *l->at != quote; l->at++)
        if (*l->at == '\\')
            l->at++;
    l->at = l->at < l->end ? l->at + 1 : l->end;
}

/* Other kinds of strings, whose ends this lexer does not find: $heredoc$, \u2018text\u2019, x'00', b'01'. Their
 * beginnings must not hide a statement. And \G, which ends one. */
static bool begins_other_token(const struct lexer *l)
{
    const char c = *l->at;
    if (c == '$' || c == '\\' || (unsigned char)c >= 0x80)
        return true;
    return strchr("xXbB", c) && l->end - l->at > 1 && l->at[1] == '\'';
}

static bool next_token(struct lexer *l, struct token *ret)
{
    skip_spaces_and_comments(l);
    const char *begin = l->at;
    if (begin == l->end)
        return false;
    if (begins_other_token(l))
        l->why = "outside of quotation marks, neither $, \\, x'', b'' nor letters beyond ASCII are accepted";
    *ret = (struct token){.text = begin, .is_word = is_word_part(*begin)};
    if (*begin == '\'' || *begin == '"' || *begin == '`')
        skip_quoted(l, *begin);
    else
        do
            l->at++;
        while (ret->is_word && l->at < l->end && is_word_part(*l->at));
    ret->size = (size_t)(l->at - begin);
    return true;
}

static bool is_keyword(const struct token *t, const char *keyword)
{
    return t->is_word && t->size == strlen(keyword) && strncasecmp(t->text, keyword, t->size) == 0;
}

static bool is_reading(const struct token *t)
{
    static const char *const keywords[] = {"SELECT", "WITH", "SHOW", "DESCRIBE", "DESC", "EXPLAIN", "EXISTS"};
    for (size_t i = 0; i < sizeof(keywords) / sizeof(keywords[0]); i++)
        if (is_keyword(t, keywords[i]))
            return true;
    return t->size == 1 && *t->text == '(';
}

/* Settings of a subquery take effect although the session is read-only, even `readonly = 0`, with which table functions
 * read files. The word is a name in system.settings only. */
static bool changes_settings(const struct token *t, const struct token *before, const struct token *before_that)
{
    const bool is_table = before->size == 1 && *before->text == '.' && is_keyword(before_that, "system");
    return is_keyword(t, "SETTINGS") && !is_table;
}

static int refuse(const char **ret_why, const char *why)
{
    *ret_why = why;
    return -EACCES;
}

int sql_text_check(const char *text, size_t size, struct sql_text *ret, const char **ret_why)
{
    struct lexer l = {text, text, text + size, NULL};
    struct token t, before = {0}, before_that = {0};
    *ret = (struct sql_text){0};
    if (memchr(text, 0, size))
        return refuse(ret_why, "the query has a NUL");
    if (!next_token(&l, &t))
        return refuse(ret_why, "the query is empty");
    if (!is_reading(&t))
        return refuse(ret_why, "only SELECT, WITH, SHOW, DESCRIBE, EXPLAIN and EXISTS are accepted here");
    do {
        if (is_keyword(&t, "OUTFILE") || is_keyword(&t, "INFILE"))
            return refuse(ret_why, "a query cannot write or read files");
        if (changes_settings(&t, &before, &before_that))
            return refuse(ret_why, "readers cannot change settings");
        if (is_keyword(&before, "PARALLEL") && is_keyword(&t, "WITH"))
            return refuse(ret_why, "only one statement is accepted");
        if (t.size == 1 && *t.text == ';' && next_token(&l, &t))
            return refuse(ret_why, "only one statement is accepted");
        if (is_keyword(&before, "FORMAT") && t.is_word && t.size < sizeof(ret->format)) {
            memcpy(ret->format, t.text, t.size);
            ret->format[t.size] = '\0';
        }
        before_that = before;
        before = t;
    } while (next_token(&l, &t));
    return l.why ? refuse(ret_why, l.why) : 0;
}

bool sql_name_is_plain(const char *name)
{
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && *name != '_')
            return false;
    return true;
}
