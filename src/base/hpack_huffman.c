/* See hpack_huffman.h. The code is canonical: of two codes the longer one is larger, and codes of one length are in the
 * order of their characters. Their lengths alone determine it. */
#include "base/hpack_huffman.h"

#include <errno.h>
#include <pthread.h>

#define CHARACTERS  257 /* the last one is the end of a text, which is never written */
#define LENGTH_MAX  30
#define SHORT_BITS  8 /* codes that a table of all bytes decodes */
#define PADDING_MAX 7

static const uint8_t code_lengths[CHARACTERS] = {
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6,  10, 10, 12, 13, 6,  8,  11, 10, 10, 8,  11, 8,  6,  6,  6,  5,  5,  5,  6,  6,  6,  6,  6,  6,  6,
    7,  8,  15, 6,  12, 10, 13, 6,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,  7,
    7,  8,  7,  8,  13, 19, 13, 14, 6,  15, 5,  6,  5,  6,  5,  6,  6,  6,  5,  7,  7,  6,  6,  6,  5,  6,  7,  6,  5,
    5,  6,  7,  7,  7,  7,  7,  15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24,
    24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22,
    23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26,
    27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23,
    22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30};

static struct {
    uint32_t first[LENGTH_MAX + 1]; /* code of each length */
    uint32_t count[LENGTH_MAX + 1];
    uint16_t start[LENGTH_MAX + 1];  /* of the length, in `characters` */
    uint16_t characters[CHARACTERS]; /* in the order of their codes */
    struct {
        uint8_t character, length; /* 0: the code is longer */
    } shorts[1 << SHORT_BITS];
} code;

static void make_code(void)
{
    uint32_t next = 0;
    uint16_t at = 0;
    for (unsigned length = 1; length <= LENGTH_MAX; length++) {
        next <<= 1;
        code.first[length] = next;
        code.start[length] = at;
        for (unsigned c = 0; c < CHARACTERS; c++) {
            if (code_lengths[c] != length)
                continue;
            code.characters[at++] = (uint16_t)c;
            for (unsigned i = 0; length <= SHORT_BITS && i < 1u << (SHORT_BITS - length); i++) {
                code.shorts[(next << (SHORT_BITS - length)) + i].character = (uint8_t)c;
                code.shorts[(next << (SHORT_BITS - length)) + i].length = (uint8_t)length;
            }
            next++;
        }
        code.count[length] = next - code.first[length];
    }
}

/* The character that begins at the highest of `count` bits, and the length of its code; -1: it is longer than them. */
static int find_character(uint64_t bits, unsigned count, unsigned *ret_length)
{
    const uint8_t byte =
        count >= SHORT_BITS ? (uint8_t)(bits >> (count - SHORT_BITS)) : (uint8_t)(bits << (SHORT_BITS - count));
    *ret_length = code.shorts[byte].length;
    if (*ret_length)
        return *ret_length <= count ? code.shorts[byte].character : -1;
    for (unsigned length = SHORT_BITS + 1; length <= LENGTH_MAX && length <= count; length++) {
        const uint32_t start = (uint32_t)(bits >> (count - length)) & ((1u << length) - 1),
                       at = start - code.first[length];
        *ret_length = length;
        if (start >= code.first[length] && at < code.count[length])
            return code.characters[code.start[length] + at];
    }
    return -1;
}

int64_t hpack_huffman_decode(const uint8_t *data, size_t size, char *out, size_t room)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    uint64_t bits = 0;
    unsigned count = 0, length;
    int64_t written = 0;
    pthread_once(&once, make_code);
    for (size_t i = 0; i < size || count;) {
        for (; count <= 56 && i < size; count += 8)
            bits = bits << 8 | data[i++];
        const int c = find_character(bits, count, &length);
        if (c == CHARACTERS - 1)
            return -EBADMSG;
        if (c < 0) /* the end: padded with ones */
            return i == size && count <= PADDING_MAX && (~bits & ((1u << count) - 1)) == 0 ? written : -EBADMSG;
        count -= length;
        if ((uint64_t)written < room)
            out[written] = (char)c;
        written++;
    }
    return written;
}
