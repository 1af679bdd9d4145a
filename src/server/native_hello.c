/* A block of one row in ClickHouse's Native format; see native_hello.h. */
#include "server/native_hello.h"

#include "server/row_binary.h"

#include <string.h>

#define HELLO                     "SELECT displayName(), version(), revision(), timezone()"
#define REVISION_WITH_FLAGS       54454 /* custom serialization: one byte for each column */
#define REVISION_WITH_INFORMATION 1     /* of the block */

bool native_hello_is(const char *sql, size_t size)
{
    return size == strlen(HELLO) && memcmp(sql, HELLO, size) == 0;
}

static void put_column(struct buf *out, uint64_t revision, const char *name, const char *type)
{
    row_put_name(out, name);
    row_put_name(out, type);
    if (revision >= REVISION_WITH_FLAGS)
        row_put_u8(out, 0);
}

static void put_text_column(struct buf *out, uint64_t revision, const char *name, const char *value)
{
    put_column(out, revision, name, "String");
    row_put_name(out, value);
}

void native_hello_put(struct buf *out, uint64_t revision, const char *engine_version)
{
    static const char information[] = {1, 0, 2, '\xff', '\xff', '\xff', '\xff', 0}; /* no overflow, no bucket */
    if (revision >= REVISION_WITH_INFORMATION)
        buf_append(out, information, sizeof(information));
    row_put_count(out, 4); /* columns */
    row_put_count(out, 1); /* row */
    put_text_column(out, revision, "displayName()", "sonde server");
    put_text_column(out, revision, "version()", engine_version);
    put_column(out, revision, "revision()", "UInt32");
    row_put_u32(out, 0);
    put_text_column(out, revision, "timezone()", "UTC");
}
