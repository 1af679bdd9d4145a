/* What several sources do with whole BPF maps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Sums the only element of a per-CPU array whose value is a struct of 64-bit counters, `bytes` in all. `ret_sum` gets a
 * struct of the same type; untouched if the map cannot be read, or without memory for its values. */
void map_sum_counters(int map_fd, void *ret_sum, size_t bytes);

/* Deletes an element of a hash map, and returns its value. False: no such element, or it could not be
 * deleted.
 */
bool map_take_element(int map_fd, const void *key, void *ret_value);

/* Deletes all elements of a hash map with 32-bit keys, which nothing fills meanwhile. */
void map_clear(int map_fd);
