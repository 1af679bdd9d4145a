/* A short list of texts, such as the values of an option that may be given several times. */
#pragma once

#include <stddef.h>

#define TEXT_LIST_MAX 64

struct text_list {
    const char *values[TEXT_LIST_MAX]; /* borrowed */
    size_t count;
};
