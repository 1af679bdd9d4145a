/* tokens.c and authorization.c: which files and headers are accepted, and that no message repeats their content. */
#include "serve/authorization.h"
#include "serve/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define HASH_OF_ABC "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define HASH_OF_X   "SECRET0000000000000000000000000000000000000000000000000000000000"

static struct tokens tokens;
static char why[TOKENS_WHY_BYTES];

static int parse(const char *text)
{
    why[0] = '\0';
    return tokens_parse(text, strlen(text), &tokens, why);
}

static void test_lines_comments_and_line_ends(void **state)
{
    (void)state;
    assert_int_equal(
        parse("# who may read\n\n  \t\n" HASH_OF_ABC " read prometheus of the north\r\n" HASH_OF_ABC "\tread"), 0);
    assert_int_equal(tokens.count, 2);
    assert_true(tokens_accept(&tokens, "abc", TOKEN_READ));
    assert_int_equal(parse(""), 0);
    assert_int_equal(tokens.count, 0);
    assert_false(tokens_accept(&tokens, "", TOKEN_READ));
}

static void test_wrong_lines_are_refused_without_repeating_them(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {HASH_OF_ABC "\n", "line 1: after the hash the scope"},
        {HASH_OF_ABC " reader\n", "line 1: after the hash the scope"},
        {HASH_OF_ABC " administrator\n", "line 1: after the hash the scope"},
        {HASH_OF_ABC " captures\n", "line 1: after the hash the scope"},
        {HASH_OF_ABC " read@\n", "line 1: after @ the tenant"},
        {HASH_OF_ABC " read@../SECRET\n", "line 1: after @ the tenant"},
        {HASH_OF_ABC " read@SECRET\n", "line 1: after @ the tenant"},
        {HASH_OF_ABC " read@-a\n", "line 1: after @ the tenant"},
        {HASH_OF_ABC " read@abcdefghijabcdefghijabcdefghijabc\n", "line 1: after @ the tenant"},
        {HASH_OF_ABC " admin@shop\n", "line 1: admin is for all tenants"},
        {HASH_OF_ABC " read\n" HASH_OF_ABC " write@shop\n", "line 2: another line has this token for another tenant"},
        {"\n" HASH_OF_ABC " read\n" HASH_OF_ABC "0 read\n", "line 3: after sha256: 64 hexadecimal"},
        {"sha256:" HASH_OF_X " read\n", "line 1: after sha256: 64 hexadecimal"},
        {"sha256: read\n", "line 1: after sha256: 64 hexadecimal"},
        {"sonde_SECRET\n", "line 1: this is a token"},
        {"SECRET\n", "line 1: does not begin with sha256:"},
    };
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        assert_int_equal(parse(cases[i].text), -EINVAL);
        if (!strstr(why, cases[i].why) || strstr(why, "SECRET"))
            fail_msg("case %zu: %s", i, why);
    }
    assert_int_equal(tokens_parse("sha256:\0", 8, &tokens, why), -EINVAL);
    assert_non_null(strstr(why, "NUL"));
}

static void test_a_token_has_a_tenant(void **state)
{
    unsigned char hash[SHA256_BYTES];
    char names[TENANTS_MAX][TENANT_BYTES], token[TOKEN_BYTES], line[TOKEN_LINE_BYTES], text[4096] = "";
    (void)state;
    assert_int_equal(parse(HASH_OF_ABC " read@shop-1 comment\n" HASH_OF_ABC " write@shop-1"), 0);
    sha256("abc", 3, hash);
    struct token_rights rights = tokens_find(&tokens, hash);
    assert_int_equal(rights.scopes, TOKEN_READ | TOKEN_WRITE);
    assert_string_equal(rights.tenant, "shop-1");
    assert_int_equal(tokens_tenants(&tokens, names), 1);
    assert_string_equal(names[0], "shop-1");
    hash[0] ^= 1;
    rights = tokens_find(&tokens, hash);
    assert_int_equal(rights.scopes, 0);
    assert_string_equal(rights.tenant, "");
    for (int i = 0; i < TENANTS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        assert_int_equal(tokens_make(TOKEN_READ, name, token, line), 0);
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\n", line);
    }
    assert_int_equal(parse(text), 0);
    assert_int_equal(tokens_tenants(&tokens, names), TENANTS_MAX);
    assert_int_equal(tokens_make(TOKEN_READ, "one-more", token, line), 0);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\n", line);
    assert_int_equal(parse(text), -EINVAL);
    assert_string_equal(why, "line 17: there are too many tenants: 16 are possible");
}

static void test_too_many_tokens_are_refused(void **state)
{
    char *text = malloc((TOKENS_MAX + 1) * 80), *at = text;
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i <= TOKENS_MAX; i++)
        at += snprintf(at, 80, HASH_OF_ABC " read\n");
    assert_int_equal(tokens_parse(text, (size_t)(at - text), &tokens, why), -EINVAL);
    assert_non_null(strstr(why, "line 257"));
    free(text);
}

static void test_only_exactly_a_token_is_accepted(void **state)
{
    char token[TOKEN_BYTES], line[TOKEN_LINE_BYTES], other[TOKEN_BYTES], other_line[TOKEN_LINE_BYTES];
    (void)state;
    assert_int_equal(tokens_make(TOKEN_READ, "", token, line), 0);
    assert_int_equal(tokens_make(TOKEN_READ, "", other, other_line), 0);
    assert_int_equal(strlen(token), 46);
    assert_string_not_equal(token, other);
    assert_null(strstr(line, token + 6));
    assert_int_equal(parse(HASH_OF_ABC " read\n"), 0);
    assert_false(tokens_accept(&tokens, token, TOKEN_READ));
    char file[2 * TOKEN_LINE_BYTES + 2];
    snprintf(file, sizeof(file), "%s\n%s\n", other_line, line);
    assert_int_equal(parse(file), 0);
    assert_true(tokens_accept(&tokens, token, TOKEN_READ) && tokens_accept(&tokens, other, TOKEN_READ));
    for (size_t i = 0; i < strlen(token); i++) { /* one wrong bit in any place */
        token[i] ^= 1;
        assert_false(tokens_accept(&tokens, token, TOKEN_READ));
        token[i] ^= 1;
    }
    token[45] = '\0';
    assert_false(tokens_accept(&tokens, token, TOKEN_READ));
}

static void test_scopes(void **state)
{
    static const struct {
        const char *name;
        bool reads, writes, reports, captures;
    } cases[] = {{"read", true, false, false, false},
                 {"write", false, true, false, false},
                 {"agent", false, false, true, false},
                 {"capture", false, false, false, true},
                 {"admin", true, true, true, true}};
    char token[TOKEN_BYTES], line[TOKEN_LINE_BYTES];
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        assert_int_equal(tokens_make(token_scope_of(cases[i].name), "", token, line), 0);
        assert_int_equal(parse(line), 0);
        assert_int_equal(tokens_accept(&tokens, token, TOKEN_READ), cases[i].reads);
        assert_int_equal(tokens_accept(&tokens, token, TOKEN_WRITE), cases[i].writes);
        assert_int_equal(tokens_accept(&tokens, token, TOKEN_AGENT), cases[i].reports);
        assert_int_equal(tokens_accept(&tokens, token, TOKEN_CAPTURE), cases[i].captures);
        assert_int_equal(tokens_accept(&tokens, token, TOKEN_ADMIN), strcmp(cases[i].name, "admin") == 0);
    }
    assert_int_equal(token_scope_of("other"), 0);
}

/* Each byte of the hash counts: a difference in one of them, whichever bits it has, is a different token. */
static void test_a_difference_in_any_byte_of_the_hash_counts(void **state)
{
    (void)state;
    assert_int_equal(parse(HASH_OF_ABC " read\n"), 0);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        for (unsigned bits = 1; bits < 256; bits++) {
            tokens.hashes[0][i] ^= bits;
            assert_false(tokens_accept(&tokens, "abc", TOKEN_READ));
            tokens.hashes[0][i] ^= bits;
        }
    assert_true(tokens_accept(&tokens, "abc", TOKEN_READ));
}

static void test_files_that_others_may_write_are_refused(void **state)
{
    char path[] = "/tmp/sonde-tokens-XXXXXX";
    const int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, HASH_OF_ABC " read\n", 77), 77);
    assert_int_equal(tokens_read(path, &tokens, why), 0);
    assert_int_equal(tokens.count, 1);
    assert_int_equal(fchmod(fd, 0620), 0);
    assert_int_equal(tokens_read(path, &tokens, why), -EINVAL);
    assert_non_null(strstr(why, "others than its owner may write"));
    assert_int_equal(fchmod(fd, 0602), 0);
    assert_int_equal(tokens_read(path, &tokens, why), -EINVAL);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_int_equal(ftruncate(fd, TOKENS_FILE_MAX_BYTES + 1), 0);
    assert_int_equal(tokens_read(path, &tokens, why), -EINVAL);
    assert_non_null(strstr(why, "64 KiB"));
    close(fd);
    unlink(path);
    assert_int_equal(tokens_read(path, &tokens, why), -ENOENT);
    assert_int_equal(tokens_read("/dev/null", &tokens, why), -EINVAL);
}

static void test_authorization_headers(void **state)
{
    static const struct {
        const char *header, *token;
    } cases[] = {
        {"Bearer abc", "abc"},     {"bearer  abc ", "abc"}, {"Basic dXNlcjphYmM=", "abc"}, /* user:abc */
        {"BASIC OmFiYw==", "abc"},                                                         /* :abc */
        {"Basic OmFiYw", "abc"},                                                           /* without padding */
        {"Basic dTphOmI=", "a:b"},                                                         /* u:a:b */
        {"Basic dXNlcg==", NULL},                                                          /* user */
        {"Basic dXNlcjo=", NULL},                                                          /* user: */
        {"Basic dTphAGI=", NULL},                                                          /* u:a NUL b */
        {"Basic d*==", NULL},      {"Basic ", NULL},        {"Basic ==", NULL},
        {"Bearer", NULL},          {"Bearer ", NULL},       {"Bearer a b", NULL},
        {"Bearerabc", NULL},       {"Digest abc", NULL},    {"", NULL},
    };
    char token[AUTHORIZATION_TOKEN_BYTES];
    (void)state;
    for (size_t i = 0; i < array_size(cases); i++) {
        const int r = authorization_token(cases[i].header, token);
        if (r != (cases[i].token ? 0 : -EINVAL) || (cases[i].token && strcmp(token, cases[i].token) != 0))
            fail_msg("'%s' gives %d", cases[i].header, r);
    }
    char header[600];
    memset(header, 'A', sizeof(header));
    header[sizeof(header) - 1] = '\0';
    memcpy(header, "Bearer ", 7);
    assert_int_equal(authorization_token(header, token), -EINVAL);
    header[7 + 255] = '\0';
    assert_int_equal(authorization_token(header, token), 0);
    memset(header + 7, 'A', sizeof(header) - 8);
    memcpy(header, "Basic  ", 7);
    assert_int_equal(authorization_token(header, token), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_comments_and_line_ends),
        cmocka_unit_test(test_wrong_lines_are_refused_without_repeating_them),
        cmocka_unit_test(test_a_token_has_a_tenant),
        cmocka_unit_test(test_too_many_tokens_are_refused),
        cmocka_unit_test(test_only_exactly_a_token_is_accepted),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_a_difference_in_any_byte_of_the_hash_counts),
        cmocka_unit_test(test_files_that_others_may_write_are_refused),
        cmocka_unit_test(test_authorization_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
