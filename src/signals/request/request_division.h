/* Divides a number of requests among series: first those that were recorded, then the others by weight, in whole
 * requests, so that the parts add up to the number and rare series get theirs in time. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The share of one series in one bucket. */
struct division_share {
    int32_t recorded; /* requests that were recorded and not counted; negative: counted, but in another bucket since */
    float weight;
    float owed; /* fractions of requests that it did not get so far; negative: it got more than its part */
};

struct division {
    uint64_t all, left; /* requests, and those not yet divided */
    double weight;      /* of all series */
};

/* Takes at most `max` recorded requests that were not counted, and returns how many. */
static inline uint64_t division_take_recorded(struct division_share *share, uint64_t max)
{
    if (share->recorded <= 0)
        return 0;
    const uint64_t taken = (uint64_t)share->recorded < max ? (uint64_t)share->recorded : max;
    share->recorded -= (int32_t)taken;
    return taken;
}

/* Returns the number of whole requests that a series of weight `weight` gets. Keeps the fraction that it is still owed
 * in `share`. */
static inline uint64_t division_take_part(struct division *d, struct division_share *share, double weight)
{
    const double part = (double)d->all * (weight / d->weight) + (double)share->owed;
    uint64_t whole = part > 0 ? (uint64_t)part : 0;
    whole = whole < d->left ? whole : d->left;
    share->owed = (float)(part - (double)whole);
    d->left -= whole;
    return whole;
}

/* Takes one of the rest that whole parts leave; for the series that is owed most. */
static inline uint64_t division_take_one(struct division *d, struct division_share *share)
{
    share->owed -= 1;
    d->left--;
    return 1;
}
