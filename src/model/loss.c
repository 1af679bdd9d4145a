/* Names of the kinds of loss; see loss.h. */
#include "model/loss.h"

#include <assert.h>

static const struct {
    const char *name, *help;
} loss_text[LOSS_COUNT] = {
#define X(id, name, help) [LOSS_##id] = {name, help},
    LOSS_REASONS(X)
#undef X
};

const char *loss_name(enum loss_reason reason)
{
    assert(reason < LOSS_COUNT);
    return loss_text[reason].name;
}

const char *loss_help(enum loss_reason reason)
{
    assert(reason < LOSS_COUNT);
    return loss_text[reason].help;
}

bool loss_is_of_stack(enum loss_reason reason)
{
    return reason == LOSS_NO_UNWIND_TABLE || reason == LOSS_TRUNCATED || reason == LOSS_UNNAMED ||
           reason == LOSS_INTERPRETED || reason == LOSS_FILE_UNANSWERED;
}

uint64_t losses_of_stacks(const struct losses *losses)
{
    uint64_t sum = 0;
    for (int i = 0; i < LOSS_COUNT; i++)
        sum += loss_is_of_stack(i) ? losses->count[i] : 0;
    return sum;
}

unsigned losses_incomplete_percent(const struct losses *losses)
{
    return losses->stacks ? (unsigned)((losses->incomplete_stacks * 100 + losses->stacks - 1) / losses->stacks) : 0;
}
