/* Signal "code": code objects of interpreters, which the programs that walk stacks write ahead of the samples that
 * contain them. It has no source of its own. */
#include "resolve/interpreter/interpreters.h"
#include "signals/signal.h"

#include "probes/hotspot.h"
#include "probes/python.h"
#include "probes/v8.h"

static void take_code(void *self, const struct record_header *header)
{
    const struct signal_services *services = self;
    services->losses->count[LOSS_DECODE] += interpreters_take(services->interpreters, header) < 0;
}

static bool check_python(const struct record_header *header)
{
    return python_code_is_sound((const struct python_code *)header);
}

static bool check_v8(const struct record_header *header)
{
    return v8_code_is_sound((const struct v8_code *)header);
}

static bool check_hotspot(const struct record_header *header)
{
    return hotspot_method_is_sound((const struct hotspot_method *)header);
}

static const struct record_type records[] = {
    {RECORD_PYTHON_CODE, check_python, take_code},
    {RECORD_V8_CODE, check_v8, take_code},
    {RECORD_HOTSPOT_METHOD, check_hotspot, take_code},
    {0},
};

const struct signal signal_code = {
    .name = "code", .flags = SIGNAL_ALWAYS, .records = records, .create = signal_create_plain};
