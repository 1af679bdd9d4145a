/* Messages of the process that reads DWARF, which its input may have compromised: accepted contents are within their
 * bounds, and can be written again. */
#include "resolve/lines/line_answer.h"

#include <stdlib.h>
#include <string.h>

static bool is_clean(const char *text, size_t room)
{
    size_t size = strnlen(text, room);
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            return false;
    return size < room;
}

/* Writes and reads it again; only texts with a NUL inside become shorter. */
static void check_place(const struct line_answer *answer)
{
    _cleanup_buf_ struct buf again = {0};
    struct line_answer *second = malloc(sizeof(*second));
    if (answer->count == 0 || answer->count > LINE_ANSWER_LINES_MAX || !second)
        abort();
    line_answer_begin(&again, answer->number);
    for (size_t i = 0; i < answer->count; i++) {
        const struct line_answer_line *line = &answer->lines[i];
        if (!is_clean(line->file, sizeof(line->file)) || !is_clean(line->name, sizeof(line->name)))
            abort();
        line_answer_add(&again, line->file, line->line, line->name, line->system_name);
    }
    if (!line_answer_finish(&again, answer->count) || line_answer_read(again.data, again.size, second) < 0 ||
        second->number != answer->number || second->count != answer->count)
        abort();
    for (size_t i = 0; i < answer->count; i++)
        if (answer->lines[i].line != second->lines[i].line || strcmp(answer->lines[i].file, second->lines[i].file) != 0 ||
            strcmp(answer->lines[i].name, second->lines[i].name) != 0 ||
            strcmp(answer->lines[i].system_name, second->lines[i].system_name) != 0)
            abort();
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct line_answer *answer = malloc(sizeof(*answer));
    if (!answer)
        abort();
    if (line_answer_read(data, size, answer) == 0) {
        if (answer->kind == LINE_ANSWER_PLACE)
            check_place(answer);
        else if (answer->kind != LINE_ANSWER_END || answer->status >= LINE_STATUS_COUNT)
            abort();
    }
    free(answer);
    return 0;
}
