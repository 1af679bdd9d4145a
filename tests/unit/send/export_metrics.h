/* Values of an exporter's own metrics. Header only: each test is a program of its own. */
#pragma once

#include "model/metric.h"

#include <string.h>

#include <cmocka.h>

/* The sum of the points of `name`, or the point with this `reason`. Fails if it is missing. */
static inline double value_of_metric(const struct metric_set *set, const char *name, const char *reason)
{
    double sum = -1;
    assert_int_equal(metric_set_error(set), 0);
    for (size_t i = 0; i < metric_set_families(set); i++) {
        const struct metric_family family = metric_set_family(set, i);
        for (size_t k = 0; strcmp(family.name, name) == 0 && k < family.point_count; k++)
            if (!reason || strcmp(family.points[k].labels[0].value, reason) == 0)
                sum = (sum < 0 ? 0 : sum) + family.points[k].value;
    }
    assert_true(sum >= 0);
    return sum;
}
