/* Parses one object of Triton trace JSON; see triton_json.h. */
#include "trace/import/triton_json.h"

#include "base/hex.h"
#include "base/utf8.h"

#include <errno.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ---- tokens; on failure they return false and set the reason in `p` ---- */

static bool fail(struct triton_json *p, const char *at, const char *why)
{
    p->at = at;
    if (at >= p->end)
        p->incomplete = true;
    else
        p->why = why;
    return false;
}

/* The first quote, backslash, control character or byte above 127 from `at` on, or a position at or after `end`. */
static const char *find_special(const char *at, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"'), backslash = _mm_set1_epi8('\\'), space = _mm_set1_epi8(' ');
    for (; at < end; at += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)at); /* bytes above 127 are negative */
        __m128i special = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, backslash)),
                                       _mm_cmplt_epi8(v, space));
        int mask = _mm_movemask_epi8(special);
        if (mask)
            return at + __builtin_ctz((unsigned)mask);
    }
#else
    while (at < end && *at != '"' && *at != '\\' && (signed char)*at >= ' ')
        at++;
#endif
    return at;
}

static bool parse_string(struct triton_json *p, struct triton_text *ret)
{
    if (*p->at != '"')
        return fail(p, p->at, "a string is expected here");
    const char *start = p->at + 1, *at = start;
    for (;;) {
        at = find_special(at, p->end);
        if (at >= p->end)
            return fail(p, p->end, NULL);
        if (*at == '"')
            break;
        if (*at == '\\') {
            p->escaped = true;
            at += 2;
        } else {
            p->odd = true;
            at++;
        }
    }
    *ret = (struct triton_text){start, (size_t)(at - start)};
    p->at = at + 1;
    return true;
}

/* Parses eight digits at once in a 64-bit word: pairs, then fours, then eight. */
static bool parse_eight(const char *at, uint64_t *ret)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t v;
    memcpy(&v, at, sizeof(v)); /* within TRITON_JSON_PADDING */
    if (((v & 0xF0F0F0F0F0F0F0F0u) | ((v + 0x0606060606060606u) & 0xF0F0F0F0F0F0F0F0u) >> 4) != 0x3333333333333333u)
        return false;
    v = (v & 0x0F0F0F0F0F0F0F0Fu) * (10 << 8 | 1) >> 8;
    v = (v & 0x00FF00FF00FF00FFu) * (100 << 16 | 1) >> 16;
    *ret = (v & 0x0000FFFF0000FFFFu) * (10000ull << 32 | 1) >> 32;
    return true;
#else
    (void)at;
    (void)ret;
    return false;
#endif
}

/* Parses at most 19 digits, which cannot overflow. */
static inline const char *parse_digits(const char *at, uint64_t *ret)
{
    const char *start = at;
    uint64_t value = 0, eight;
    for (; at - start < 16 && parse_eight(at, &eight); at += 8)
        value = value * 100000000 + eight;
    for (unsigned digit; at - start < 19 && (digit = (unsigned)(*at - '0')) <= 9; at++)
        value = value * 10 + digit;
    *ret = value;
    return at;
}

static bool parse_unsigned(struct triton_json *p, uint64_t *ret)
{
    uint64_t value;
    const char *at = parse_digits(p->at, &value);
    unsigned digit = (unsigned)(*at - '0');
    if (at == p->at)
        return fail(p, at, *at == '-' ? "a negative number is not allowed here" : "a whole number is expected here");
    if (digit <= 9) { /* only the twentieth digit can overflow */
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value) ||
            (unsigned)(*++at - '0') <= 9)
            return fail(p, p->at, "a number beyond 64 bits");
    }
    if (at >= p->end)
        return fail(p, p->end, NULL);
    if (*at == '.' || *at == 'e' || *at == 'E')
        return fail(p, at, "a whole number is expected here, not a fraction");
    p->at = at;
    *ret = value;
    return true;
}

static bool parse_signed(struct triton_json *p, int64_t *ret)
{
    bool negative = *p->at == '-';
    const char *start = p->at;
    uint64_t value;
    p->at += negative;
    if (!parse_unsigned(p, &value))
        return false;
    if (value > (uint64_t)INT64_MAX + negative)
        return fail(p, start, "a number beyond 64 bits");
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* Advances between members of an object or elements of an array: 1 continue at `p->at`, 0 end, -1 error. */
static int next_member(struct triton_json *p, bool *first, char close)
{
    const char *at = triton_json_space(p->at);
    if (*at == close) {
        p->at = at + 1;
        return 0;
    }
    if (!*first) {
        if (*at != ',') {
            fail(p, at, "a comma or the end of the object or array is expected here");
            return -1;
        }
        at = triton_json_space(at + 1);
    }
    *first = false;
    p->at = at;
    return 1;
}

static bool parse_key(struct triton_json *p, struct triton_text *ret)
{
    if (!parse_string(p, ret))
        return false;
    const char *at = triton_json_space(p->at);
    if (*at != ':')
        return fail(p, at, "a colon is expected here");
    p->at = triton_json_space(at + 1);
    return true;
}

static bool parse_open(struct triton_json *p, char open, const char *why)
{
    if (*p->at != open)
        return fail(p, p->at, why);
    p->at++;
    return true;
}

/* ---- skipped values ---- */

static bool skip_word(struct triton_json *p)
{
    const char *at = p->at;
    while ((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '+' ||
           *at == '-' || *at == '.')
        at++;
    if (at == p->at || at >= p->end)
        return fail(p, at, "a value is expected here");
    p->at = at;
    return true;
}

static bool skip_scalar(struct triton_json *p)
{
    struct triton_text text;
    return *p->at == '"' ? parse_string(p, &text) : skip_word(p);
}

/* Not recursive: `arrays` has a bit per open level. */
static bool skip_value(struct triton_json *p)
{
    uint64_t arrays = 0;
    unsigned depth = 0;
    bool first = true;
    do {
        if (*p->at == '[' || *p->at == '{') {
            if (depth == TRITON_JSON_DEPTH)
                return fail(p, p->at, "nested too deeply");
            arrays = arrays << 1 | (*p->at == '[');
            depth++;
            p->at++;
            first = true;
        } else if (!skip_scalar(p)) {
            return false;
        } else {
            first = false;
        }
        for (int more = 0; depth > 0; arrays >>= 1, depth--, first = false) {
            more = next_member(p, &first, arrays & 1 ? ']' : '}');
            if (more < 0)
                return false;
            if (more)
                break;
        }
        struct triton_text key;
        if (depth > 0 && !(arrays & 1) && !parse_key(p, &key))
            return false;
    } while (depth > 0);
    return true;
}

/* ---- the parts of a record ---- */

static bool parse_tokens(struct triton_json *p, uint32_t *ret)
{
    const char *start = p->at;
    uint64_t count;
    if (!parse_unsigned(p, &count))
        return false;
    if (count > UINT32_MAX)
        return fail(p, start, "too many tokens for one timestamp");
    *ret = (uint32_t)count;
    return true;
}

static bool parse_stamp(struct triton_json *p, struct triton_stamp *ret)
{
    struct triton_stamp stamp = {0};
    struct triton_text key;
    bool has_ns = false, first = true, good = true;
    const char *start = p->at;
    if (!parse_open(p, '{', "a timestamp is expected here"))
        return false;
    for (int more; good && (more = next_member(p, &first, '}')) != 0;) {
        if (more < 0 || !parse_key(p, &key))
            return false;
        if (TRITON_TEXT_IS(key, "name"))
            good = parse_string(p, &stamp.name);
        else if (TRITON_TEXT_IS(key, "ns"))
            good = has_ns = parse_unsigned(p, &stamp.ns);
        else if (TRITON_TEXT_IS(key, "tokens"))
            good = parse_tokens(p, &stamp.tokens);
        else
            good = skip_value(p);
    }
    if (!good)
        return false;
    if (!stamp.name.at || !has_ns)
        return fail(p, start, "a timestamp needs a name and ns");
    *ret = stamp;
    return true;
}

static bool grow_stamps(struct triton_json *p)
{
    if (p->stamp_capacity >= TRITON_JSON_STAMPS_MAX)
        return fail(p, p->at, "too many timestamps in one object");
    size_t capacity = p->stamp_capacity ? p->stamp_capacity * 2 : 64;
    struct triton_stamp *stamps = realloc(p->stamps, capacity * sizeof(*stamps));
    if (!stamps)
        return fail(p, p->at, "out of memory");
    p->stamps = stamps;
    p->stamp_capacity = capacity;
    return true;
}

static bool parse_stamps(struct triton_json *p, struct triton_record *record)
{
    bool first = true;
    record->stamp_count = 0;
    if (!parse_open(p, '[', "an array of timestamps is expected here"))
        return false;
    for (int more; (more = next_member(p, &first, ']')) != 0;) {
        if (more < 0 || (record->stamp_count == p->stamp_capacity && !grow_stamps(p)) ||
            !parse_stamp(p, &p->stamps[record->stamp_count]))
            return false;
        record->stamp_count++;
    }
    record->stamps = p->stamps;
    return true;
}

static bool parse_tensor(struct triton_json *p, struct triton_tensor *ret)
{
    struct triton_tensor tensor = {0};
    struct triton_text key;
    bool first = true, good = true;
    if (!parse_open(p, '{', "a tensor is expected here"))
        return false;
    for (int more; good && (more = next_member(p, &first, '}')) != 0;) {
        if (more < 0 || !parse_key(p, &key))
            return false;
        good = TRITON_TEXT_IS(key, "name")    ? parse_string(p, &tensor.name)
               : TRITON_TEXT_IS(key, "data")  ? parse_string(p, &tensor.data)
               : TRITON_TEXT_IS(key, "shape") ? parse_string(p, &tensor.shape)
               : TRITON_TEXT_IS(key, "dtype") ? parse_string(p, &tensor.dtype)
                                              : skip_value(p);
    }
    *ret = tensor;
    return good;
}

/* The facts of the record; the first call for a record clears the storage. */
static struct triton_facts *facts_of(struct triton_json *p, struct triton_record *r)
{
    if (!r->facts)
        p->facts = (struct triton_facts){.tokens = {-1, -1}};
    r->facts = &p->facts;
    return &p->facts;
}

static bool parse_generation(struct triton_json *p, struct triton_facts *facts)
{
    struct triton_text key;
    bool first = true, good = true;
    if (!parse_open(p, '{', "an object with details of the generation is expected here"))
        return false;
    facts->has_generation = true;
    for (int more; good && (more = next_member(p, &first, '}')) != 0;) {
        if (more < 0 || !parse_key(p, &key))
            return false;
        enum triton_fact fact = triton_fact_find(key, TRITON_FACT_GENERATION);
        enum triton_token_count count = triton_token_count_find(key);
        good = fact != TRITON_FACT_COUNT      ? parse_string(p, &facts->texts[fact])
               : count != TRITON_TOKEN_COUNTS ? parse_signed(p, &facts->tokens[count])
                                              : skip_value(p);
    }
    return good;
}

static bool parse_member(struct triton_json *p, struct triton_text key, struct triton_record *r, bool *has_id)
{
    if (TRITON_TEXT_IS(key, "id"))
        return *has_id = parse_unsigned(p, &r->id);
    if (TRITON_TEXT_IS(key, "timestamps"))
        return parse_stamps(p, r);
    if (TRITON_TEXT_IS(key, "model_name"))
        return parse_string(p, &r->model_name);
    if (TRITON_TEXT_IS(key, "model_version"))
        return r->has_version = parse_signed(p, &r->model_version);
    if (TRITON_TEXT_IS(key, "request_id"))
        return parse_string(p, &r->request_id);
    if (TRITON_TEXT_IS(key, "parent_id"))
        return r->has_parent = parse_unsigned(p, &r->parent_id);
    if (TRITON_TEXT_IS(key, "activity"))
        return parse_string(p, &r->activity);
    if (TRITON_TEXT_IS(key, "tensor"))
        return parse_tensor(p, &r->tensor);
    if (TRITON_TEXT_IS(key, "generation"))
        return parse_generation(p, facts_of(p, r));
    enum triton_fact fact = *p->at == '"' ? triton_fact_find(key, 0) : TRITON_FACT_COUNT;
    return fact < TRITON_FACT_GENERATION ? parse_string(p, &facts_of(p, r)->texts[fact]) : skip_value(p);
}

#define SKIP_LITERAL(at, literal) (memcmp(at, literal, sizeof(literal) - 1) == 0 ? (at) + sizeof(literal) - 1 : NULL)

/* Fast path for the form of nearly every object of Triton and libsonde:
 * {"id":1,"timestamps":[{"name":"X","ns":2}]}; also with ,"tokens":3 after the last number. Anything else, including an
 * object that continues after `end` (where a NUL is), is left to the general parser. */
static bool parse_common_form(struct triton_json *p, struct triton_record *ret)
{
    uint64_t id, ns, tokens = 0;
    const char *at = SKIP_LITERAL(p->at, "{\"id\":"), *digits = at;
    if (!at || (at = parse_digits(at, &id)) == digits || !(at = SKIP_LITERAL(at, ",\"timestamps\":[{\"name\":\"")))
        return false;
    const char *name = at;
    at = find_special(at, p->end);
    if (at >= p->end || !(digits = SKIP_LITERAL(at, "\",\"ns\":")))
        return false;
    size_t size = (size_t)(at - name);
    at = parse_digits(digits, &ns);
    if (at != digits && *at == ',' && (digits = SKIP_LITERAL(at, ",\"tokens\":")))
        at = parse_digits(digits, &tokens);
    if (!digits || at == digits || tokens > UINT32_MAX || !(at = SKIP_LITERAL(at, "}]}")) ||
        (p->stamp_capacity == 0 && !grow_stamps(p)))
        return false;
    p->stamps[0] = (struct triton_stamp){{name, size}, ns, (uint32_t)tokens};
    ret->id = id;
    ret->stamps = p->stamps;
    ret->stamp_count = 1;
    p->at = at;
    return true;
}

static int result(const struct triton_json *p, bool good)
{
    return good ? 0 : p->incomplete ? -EAGAIN : -EBADMSG;
}

int triton_json_object(struct triton_json *p, struct triton_record *ret)
{
    struct triton_record record = {0};
    struct triton_text key;
    bool first = true, has_id = false;
    const char *start = p->at;
    p->incomplete = p->odd = p->escaped = false;
    if (parse_common_form(p, &record)) {
        *ret = record;
        return 0;
    }
    p->at++;
    for (int more; (more = next_member(p, &first, '}')) != 0;)
        if (more < 0 || !parse_key(p, &key) || !parse_member(p, key, &record, &has_id))
            return result(p, false);
    if (!has_id)
        return result(p, fail(p, start, "an object without an id"));
    *ret = record;
    return 0;
}

/* ---- backslashes ---- */

static int hex_digits(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(at[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Replaces one escape sequence; the result is never longer. Lone surrogates become U+FFFD; an invalid escape is kept.
 */
static const char *unescape_one(const char *at, const char *end, char **to)
{
    static const char from[] = "\"\\/bfnrt", become[] = "\"\\/\b\f\n\r\t";
    const char *found = at < end && *at ? strchr(from, *at) : NULL;
    if (found) {
        *(*to)++ = become[found - from];
        return at + 1;
    }
    int high = at < end && *at == 'u' ? hex_digits(at + 1, end) : -1;
    if (high < 0) {
        *(*to)++ = '\\';
        return at;
    }
    at += 5;
    unsigned c = (unsigned)high;
    if (c >= 0xD800 && c <= 0xDBFF && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        int low = hex_digits(at + 2, end);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            c = 0x10000 + ((c - 0xD800) << 10) + ((unsigned)low - 0xDC00);
            at += 6;
        }
    }
    *to += utf8_encode(c, *to);
    return at;
}

static void unescape(struct triton_text *text)
{
    const char *at = text->size ? memchr(text->at, '\\', text->size) : NULL;
    if (!at)
        return;
    const char *end = text->at + text->size;
    char *to = (char *)(uintptr_t)at; /* the buffer belongs to the caller and is writable */
    while (at < end)
        if (*at == '\\')
            at = unescape_one(at + 1, end, &to);
        else
            *to++ = *at++;
    text->size = (size_t)(to - text->at);
}

void triton_json_unescape(struct triton_json *p, struct triton_record *record)
{
    struct triton_text *const texts[] = {&record->model_name,  &record->request_id,  &record->activity,
                                         &record->tensor.name, &record->tensor.data, &record->tensor.shape,
                                         &record->tensor.dtype};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        unescape(texts[i]);
    for (size_t i = 0; record->facts && i < TRITON_FACT_COUNT; i++)
        unescape(&p->facts.texts[i]);
    for (size_t i = 0; i < record->stamp_count; i++)
        unescape(&p->stamps[i].name);
}
