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
