/* Validates the records of stacks, which several signals have. */
#pragma once

#include "sources/events/record_type.h"

/* record_type.is_valid of every kind whose record is a struct stack_record. */
bool stack_record_check(const struct record_header *header);
