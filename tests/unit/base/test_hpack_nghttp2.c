/* Blocks that nghttp2 has compressed are decoded to the fields that it was given: 20,000 generated sets, in tables of
 * several sizes, with decoders that begin with the connection or in its middle. Skipped without libnghttp2. An argument
 * is the number of connections, of 200 blocks each: 500,000 are 10^8 sets. */
#include "base/hpack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef HAVE_NGHTTP2
#include <nghttp2/nghttp2.h>

#define FIELDS_MAX 12
#define JOINS_AT   50 /* blocks after which the second decoder begins */
#define BLOCKS     200

static uint64_t connections = 100;

struct expected {
    const nghttp2_nv *fields;
    size_t count, at, unknown;
    bool is_joined;
};

static const char *const kept[HPACK_NAMES] = {[HPACK_METHOD] = ":method",
                                              [HPACK_PATH] = ":path",
                                              [HPACK_STATUS] = ":status",
                                              [HPACK_CONTENT_TYPE] = "content-type",
                                              [HPACK_GRPC_STATUS] = "grpc-status"};

static void compare(void *context, const struct hpack_field *f)
{
    struct expected *e = context;
    assert_true(e->at < e->count);
    const nghttp2_nv *nv = &e->fields[e->at++];
    enum hpack_name name = HPACK_OTHER;
    for (int i = 0; i < HPACK_NAMES; i++)
        if (kept[i] && strlen(kept[i]) == nv->namelen && memcmp(kept[i], nv->name, nv->namelen) == 0)
            name = i;
    if (f->name == HPACK_UNKNOWN) {
        assert_true(e->is_joined);
        e->unknown++;
        return;
    }
    assert_int_equal(f->name, name);
    assert_int_equal(f->size, nv->namelen + nv->valuelen);
    if (name == HPACK_OTHER)
        return;
    assert_true(f->has_value);
    assert_int_equal(f->value_size < HPACK_VALUE_MAX ? f->value_size : HPACK_VALUE_MAX,
                     nv->valuelen < HPACK_VALUE_MAX ? nv->valuelen : HPACK_VALUE_MAX);
    assert_memory_equal(f->value, nv->value, nv->valuelen < HPACK_VALUE_MAX ? nv->valuelen : HPACK_VALUE_MAX);
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void make_field(uint64_t *seed, nghttp2_nv *nv, uint8_t text[320])
{
    static const char *const names[] = {":method",     ":path",        ":status", "content-type",  "grpc-status",
                                        "grpc-status", "x-request-id", "cookie",  "authorization", "te",
                                        "user-agent",  "grpc-message", ":scheme", ":authority"};
    static const char *const values[] = {"GET", "POST", "/", "200", "404", "application/grpc", "0", "14", "trailers"};
    const char *name = names[next_random(seed) % (sizeof(names) / sizeof(names[0]))];
    nv->name = (uint8_t *)name;
    nv->namelen = strlen(name);
    nv->flags = next_random(seed) % 8 ? NGHTTP2_NV_FLAG_NONE : NGHTTP2_NV_FLAG_NO_INDEX;
    if (next_random(seed) % 2) {
        nv->value = (uint8_t *)values[next_random(seed) % (sizeof(values) / sizeof(values[0]))];
        nv->valuelen = strlen((const char *)nv->value);
        return;
    }
    nv->value = text;
    nv->valuelen = next_random(seed) % (next_random(seed) % 16 ? 24 : 320);
    const uint32_t alphabet = next_random(seed) % 3 ? 3 : 256; /* few letters: the same values again */
    for (size_t i = 0; i < nv->valuelen; i++)
        text[i] = (uint8_t)(alphabet == 256 ? next_random(seed) : 'a' + next_random(seed) % alphabet);
}

static void run_connection(uint64_t seed, int blocks)
{
    nghttp2_hd_deflater *deflater;
    struct hpack_decoder whole, joined;
    size_t known_late = 0;
    assert_int_equal(nghttp2_hd_deflate_new(&deflater, next_random(&seed) % 2 ? 4096 : 16384), 0);
    hpack_decoder_init(&whole, false);
    hpack_decoder_init(&joined, true);
    for (int i = 0; i < blocks; i++) {
        nghttp2_nv fields[FIELDS_MAX];
        uint8_t text[FIELDS_MAX][320], block[16384];
        const size_t count = 1 + next_random(&seed) % FIELDS_MAX;
        if (next_random(&seed) % 40 == 0)
            nghttp2_hd_deflate_change_table_size(deflater, next_random(&seed) % 4096);
        for (size_t k = 0; k < count; k++)
            make_field(&seed, &fields[k], text[k]);
        const ssize_t size = nghttp2_hd_deflate_hd(deflater, block, sizeof(block), fields, count);
        assert_true(size > 0);
        struct expected e = {.fields = fields, .count = count};
        assert_int_equal(hpack_decode(&whole, block, (size_t)size, compare, &e), 0);
        assert_int_equal(e.at, count);
        if (i < JOINS_AT)
            continue;
        e = (struct expected){.fields = fields, .count = count, .is_joined = true};
        assert_int_equal(hpack_decode(&joined, block, (size_t)size, compare, &e), 0);
        assert_int_equal(e.at, count);
        known_late += count - e.unknown;
    }
    assert_true(known_late > 0);
    hpack_decoder_clear(&whole);
    hpack_decoder_clear(&joined);
    nghttp2_hd_deflate_del(deflater);
}

static void test_blocks_of_nghttp2_are_decoded(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < connections; seed++)
        run_connection(seed, BLOCKS);
}
#else
static void test_blocks_of_nghttp2_are_decoded(void **state)
{
    (void)state;
    print_message("skipped: built without libnghttp2 (Debian: libnghttp2-dev)\n");
    skip();
}
#endif

int main(int argc, char **argv)
{
#ifdef HAVE_NGHTTP2
    if (argc > 1)
        connections = strtoull(argv[1], NULL, 10);
#else
    (void)argc, (void)argv;
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks_of_nghttp2_are_decoded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
