/* Marks the exported symbols of the library; everything else is compiled with hidden visibility. libsonde.map holds
 * the symbol versions. */
#pragma once

#define SONDE_EXPORT __attribute__((visibility("default")))
